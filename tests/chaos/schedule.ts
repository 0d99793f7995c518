import { Random } from "../fuzz/random.ts";

/** What goes wrong in a run, and when: made before anything starts, a pure function of the seed. */

export const RUNNERS = 4;
/** Every runner out of reach at once, for this long (it is a third of a minute of silence, beyond what one runner may have). */
const OUTAGE_MS = 20_000;
/** After an outage losses wait for a minute; a second one within it would keep everything standing. */
const BETWEEN_OUTAGES_MS = 90_000;
/** A runtime that was killed is to be seen at work before it is killed again. */
const BETWEEN_DEATHS_MS = 15_000;
/** Runners that may be gone, frozen or refused at the same time, an outage apart. */
const MOST_OUT = 2;
const FIRST_AT_MS = 3_000;
/** In a short run the long faults find a place only where they come early: other orders are drawn until all fit. */
const MOST_TRIES = 1_000;

interface Timed {
  readonly at_ms: number;
  /** How long it lasts; 0 for a blow. */
  readonly for_ms: number;
}

/** What a proxy does to the messages that pass it. */
export type LineFaultKind =
  /** The connection breaks before the message arrives. */
  | "cut_requests"
  /** The message arrives and is acted on; its answer never comes back. */
  | "lose_answers"
  | "delay_messages"
  /** The message arrives twice: at once, or again as soon as it has been answered. */
  | "double_reports"
  /** The message comes again after seconds, when it is no longer true. */
  | "stale_reports"
  /** Uploads are answered 503. */
  | "fail_uploads"
  /** Uploads break in the middle of their body. */
  | "cut_uploads";

export interface LineFault extends Timed {
  readonly kind: LineFaultKind;
  /** It strikes every nth message that it could strike. */
  readonly every: number;
  readonly delay_ms: number;
}

export type RunnerFaultKind =
  /** SIGKILL; it is started again after `for_ms`. */
  | "kill_runner"
  /** SIGKILL, and started again at once. */
  | "restart_runner"
  /** SIGSTOP, and SIGCONT when the fleet has given it up. */
  | "freeze_runner"
  /** Its beats and reports do not arrive, its uploads do: it is given up with its results stored, and then it tells of them. */
  | "mute_runner"
  /** Its clock jumps within what is allowed, and back. */
  | "skew_clock"
  /** Its clock jumps so far that nothing that it signs is believed, and back. */
  | "wrong_clock";

export interface RunnerFault extends Timed {
  readonly kind: RunnerFaultKind;
  readonly runner: number;
}

export interface AccountFault extends Timed {
  readonly kind: "evict_account" | "poison_timer";
  /** Taken modulo the number of accounts. */
  readonly account: number;
}

export interface ServiceFault extends Timed {
  readonly kind: "kill_workerd" | "evict_fleet" | "cut_off_all";
}

export type Fault = LineFault | RunnerFault | AccountFault | ServiceFault;
export type FaultKind = Fault["kind"];

export const SKEW_MS: Readonly<Record<"skew_clock" | "wrong_clock", number>> = {
  skew_clock: 40_000,
  wrong_clock: 300_000,
};

interface KindRule {
  /** How often, compared with the others. */
  readonly weight: number;
  readonly least_s: number;
  readonly most_s: number;
}

/** A runner is lost after 15 s of silence: freezes go beyond that, kills and wrong clocks end on both sides of it. */
const RULES: Readonly<Record<FaultKind, KindRule>> = {
  cut_off_all: { weight: 0.4, least_s: OUTAGE_MS / 1000, most_s: OUTAGE_MS / 1000 },
  freeze_runner: { weight: 2, least_s: 17, most_s: 22 },
  mute_runner: { weight: 2, least_s: 17, most_s: 22 },
  wrong_clock: { weight: 1, least_s: 10, most_s: 20 },
  skew_clock: { weight: 1, least_s: 8, most_s: 20 },
  kill_runner: { weight: 2, least_s: 2, most_s: 20 },
  restart_runner: { weight: 3, least_s: 0, most_s: 0 },
  kill_workerd: { weight: 1.5, least_s: 0, most_s: 0 },
  evict_fleet: { weight: 2, least_s: 0, most_s: 0 },
  evict_account: { weight: 2, least_s: 0, most_s: 0 },
  poison_timer: { weight: 1, least_s: 0, most_s: 0 },
  cut_requests: { weight: 2, least_s: 4, most_s: 10 },
  lose_answers: { weight: 2, least_s: 4, most_s: 10 },
  delay_messages: { weight: 1.5, least_s: 4, most_s: 8 },
  double_reports: { weight: 1.5, least_s: 5, most_s: 12 },
  stale_reports: { weight: 1.5, least_s: 5, most_s: 12 },
  fail_uploads: { weight: 1, least_s: 4, most_s: 8 },
  cut_uploads: { weight: 1, least_s: 4, most_s: 8 },
};

export const FAULT_KINDS = Object.keys(RULES) as readonly FaultKind[];

const isRunnerFault = (kind: FaultKind): kind is RunnerFaultKind =>
  kind === "kill_runner" ||
  kind === "restart_runner" ||
  kind === "freeze_runner" ||
  kind === "mute_runner" ||
  kind === "skew_clock" ||
  kind === "wrong_clock";

/** Whether a runner with this fault can do no work for longer than a restart takes. */
const isOut = ({ kind }: Fault): boolean =>
  kind === "kill_runner" || kind === "freeze_runner" || kind === "mute_runner" || kind === "wrong_clock";

const endOf = ({ at_ms, for_ms }: Timed): number => at_ms + for_ms;

/** A process that was just started again is left alone until it can have beaten. */
const SETTLING_MS = 3_000;

function drawKind(random: Random): FaultKind {
  const sum = FAULT_KINDS.reduce((total, kind) => total + RULES[kind].weight, 0);
  let left = random.next() * sum;
  for (const kind of FAULT_KINDS) {
    left -= RULES[kind].weight;
    if (left < 0) return kind;
  }
  return "evict_fleet";
}

/** The fault of that kind at that time; undefined where it would not fit between the others. */
function draw(
  random: Random,
  kind: FaultKind,
  at_ms: number,
  end_ms: number,
  before: readonly Fault[],
): Fault | undefined {
  const { least_s, most_s } = RULES[kind];
  const timed = { at_ms, for_ms: Math.round((least_s + random.next() * (most_s - least_s)) * 1000) };
  if (endOf(timed) > end_ms) return undefined;
  if (isRunnerFault(kind)) {
    const taken = before.filter((fault) => "runner" in fault && endOf(fault) + SETTLING_MS > at_ms);
    const out = taken.filter((fault) => isOut(fault) && endOf(fault) > at_ms);
    const free = Array.from({ length: RUNNERS }, (_, n) => n).filter(
      (n) => !taken.some((fault) => "runner" in fault && fault.runner === n),
    );
    const runner = free[random.int(0, free.length - 1)];
    const fault: RunnerFault = { kind, ...timed, runner: runner ?? 0 };
    return runner === undefined || (isOut(fault) && out.length >= MOST_OUT) ? undefined : fault;
  }
  switch (kind) {
    case "kill_workerd":
      return before.some((fault) => fault.kind === kind && fault.at_ms + BETWEEN_DEATHS_MS > at_ms)
        ? undefined
        : { kind, ...timed };
    case "evict_fleet":
      return { kind, ...timed };
    case "cut_off_all":
      // A line that is cut has no message left for another fault.
      if (before.some((fault) => "every" in fault && endOf(fault) > at_ms)) return undefined;
      if (before.some((fault) => fault.kind === kind && endOf(fault) + BETWEEN_OUTAGES_MS > at_ms)) return undefined;
      return { kind, ...timed };
    case "evict_account":
    case "poison_timer":
      return { kind, ...timed, account: random.int(0, 99) };
    default:
      // Two of a kind at once would only be one with other numbers.
      if (before.some((fault) => (fault.kind === kind || fault.kind === "cut_off_all") && endOf(fault) > at_ms))
        return undefined;
      return { kind, ...timed, every: random.int(1, 4), delay_ms: random.int(300, 4_000) };
  }
}

/** One attempt at a schedule, with the kinds that found no place in it. */
function fill(random: Random, end_ms: number, gap_ms: number): { faults: Fault[]; missing: FaultKind[] } {
  const owed = FAULT_KINDS.map((kind) => ({ kind, place: random.next() }))
    .sort((a, b) => a.place - b.place)
    .map(({ kind }) => kind);
  const faults: Fault[] = [];
  const fits = (kind: FaultKind, at_ms: number): boolean => {
    const fault = draw(random, kind, at_ms, end_ms, faults);
    if (fault) faults.push(fault);
    return fault !== undefined;
  };
  for (let at = FIRST_AT_MS; at < end_ms; at += gap_ms) {
    const at_ms = Math.round(at + (random.next() * gap_ms) / 2);
    const next = owed.findIndex((kind) => fits(kind, at_ms));
    if (next >= 0) owed.splice(next, 1);
    else for (let tries = 0; tries < 5 && !fits(drawKind(random), at_ms); tries++);
  }
  return { faults, missing: owed };
}

/**
 * The faults of a run in the order of their times, every kind at least once. The last has ended after `seconds`.
 * Throws where so short a run has no room for every kind.
 */
export function scheduleOf(seed: number, { seconds, gap_s }: { seconds: number; gap_s: number }): Fault[] {
  const random = new Random(seed);
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const { faults, missing } = fill(random, seconds * 1000, gap_s * 1000);
    if (missing.length === 0) return faults.sort((a, b) => a.at_ms - b.at_ms);
  }
  throw new Error(`${seconds} s with a fault every ${gap_s} s are too few for every kind of fault.`);
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;

/** One line for people. */
export function describeFault(fault: Fault): string {
  const whom = "runner" in fault ? ` runner ${fault.runner}` : "account" in fault ? ` account ${fault.account}` : "";
  const how = "every" in fault ? `, every ${fault.every}.` : "";
  const late = fault.kind === "delay_messages" ? `, by ${seconds(fault.delay_ms)}` : "";
  return `${fault.kind}${whom}${fault.for_ms > 0 ? ` for ${seconds(fault.for_ms)}` : ""}${how}${late}`;
}
