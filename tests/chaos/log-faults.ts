import { POISONED } from "./inspection.ts";

/** Log lines that no fault of this suite explains: the service or a runner met a mistake of its own. */

/** A verb that threw, a row that can't be read, a timer that fails; not the one that was poisoned. */
const WORKER_FAULTS = /"event":"(fleet_fault|row_poisoned|timer_failed)"/;
/** A runner logs as errors only what it can't explain. */
const RUNNER_FAULT = /^\S+ error /;

export const isWorkerFault = (line: string): boolean => WORKER_FAULTS.test(line) && !line.includes(POISONED);
export const isRunnerFault = (line: string): boolean => RUNNER_FAULT.test(line);
