import { type Fault, type RunnerFault, SKEW_MS } from "./schedule.ts";
import type { ChaosStack } from "./stack.ts";
import type { InterruptionKind } from "./traffic.ts";

/** Carries faults out, and undoes them when their time is over. */

/** A verb of the service is tried again for this long: another fault may hold the service just then. */
const VERB_PATIENCE_MS = 20_000;

export interface Injection {
  readonly stack: ChaosStack;
  readonly lasting: (ms: number) => Promise<void>;
  /** One line about what it met. */
  note(line: string): void;
}

async function insist(act: () => Promise<unknown>): Promise<boolean> {
  const deadline = Date.now() + VERB_PATIENCE_MS;
  for (;;) {
    try {
      await act();
      return true;
    } catch {
      if (Date.now() > deadline) return false;
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  }
}

async function injectIntoRunner(fault: RunnerFault, { stack, lasting, note }: Injection): Promise<void> {
  const { kind, for_ms, runner: n } = fault;
  const runner = stack.runners[n];
  if (!runner) return;
  const interrupted = (how: InterruptionKind): void => {
    const held = stack.traffic.interrupted(n, how, Date.now());
    if (held > 0) note(`runner ${n} held ${held} executions`);
  };
  switch (kind) {
    case "kill_runner":
    case "restart_runner":
      interrupted(kind === "kill_runner" ? "killed" : "restarted");
      await runner.kill();
      await lasting(for_ms);
      return runner.start();
    case "freeze_runner":
      interrupted("frozen");
      runner.freeze();
      await lasting(for_ms);
      return runner.thaw();
    case "mute_runner": {
      const runner_id = runner.runner_id();
      interrupted("muted");
      stack.lines.mute(runner_id);
      await lasting(for_ms);
      return stack.lines.unmute(runner_id);
    }
    case "skew_clock":
    case "wrong_clock":
      await runner.setClock(SKEW_MS[kind]);
      await lasting(for_ms);
      return runner.setClock(0);
  }
}

/** Resolves when the fault is over and undone. Returns false where it could not be carried out. */
export async function inject(fault: Fault, injection: Injection): Promise<boolean> {
  const { stack, lasting } = injection;
  if ("runner" in fault) {
    await injectIntoRunner(fault, injection);
    return true;
  }
  if ("every" in fault) {
    stack.lines.begin(fault);
    await lasting(fault.for_ms);
    stack.lines.end(fault);
    return true;
  }
  const account = "account" in fault ? stack.accounts[fault.account % stack.accounts.length] : undefined;
  switch (fault.kind) {
    case "kill_workerd":
      return stack.edge.kill();
    case "evict_fleet":
      return insist(() => stack.edge.strike("evict-fleet"));
    case "evict_account":
      return insist(() => stack.edge.strike("evict-account", account?.account_id));
    case "poison_timer":
      return insist(() => stack.edge.strike("poison", account?.account_id));
    case "cut_off_all":
      stack.lines.cutOff = true;
      await lasting(fault.for_ms);
      stack.lines.cutOff = false;
      return true;
  }
}
