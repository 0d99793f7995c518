import { decodeJwt } from "jose";
import { EDGE_PATHS } from "../../schemas/runner-protocol.ts";
import type { Passing, Treatment } from "./proxy.ts";
import type { LineFault, LineFaultKind } from "./schedule.ts";

/** What the faults of the moment do to the messages between service and runners. */

const PASS: Treatment = { kind: "pass" };
/** When a report comes again: its proof is believed for two minutes, so each of these reaches the account. */
const STALE_MS = [1_500, 8_000, 25_000] as const;
/** After this time from the end of a fault nothing old comes any more. */
export const LAST_REPLAY_MS = Math.max(...STALE_MS) + 5_000;

const isUpload = ({ method, path }: Passing): boolean => method === "PUT" && path.startsWith(EDGE_PATHS.outputs);
const isReport = (message: Passing): boolean =>
  isUpload(message) ||
  message.path === EDGE_PATHS.progress ||
  message.path === EDGE_PATHS.end ||
  message.path === EDGE_PATHS.heartbeat;

const isWord = (message: Passing): boolean => isReport(message) && !isUpload(message);

/** Which runner sent it, by the token that it shows; undefined where none did. */
function senderOf({ headers }: Passing): string | undefined {
  const [, token] = /^DPoP (.+)$/.exec(headers.authorization ?? "") ?? [];
  return token === undefined ? undefined : decodeJwt(token).sub;
}

/** Which messages a fault could strike. */
const SCOPE: Readonly<Record<LineFaultKind, (message: Passing) => boolean>> = {
  cut_requests: () => true,
  lose_answers: () => true,
  delay_messages: () => true,
  double_reports: ({ method }) => method !== "GET",
  stale_reports: isReport,
  fail_uploads: isUpload,
  cut_uploads: isUpload,
};

/** @param n how many messages this fault has struck before */
function treatmentOf({ kind, delay_ms }: LineFault, n: number): Treatment {
  switch (kind) {
    case "cut_requests":
      return { kind: "cut" };
    case "lose_answers":
      return { kind: "lose_answer" };
    case "delay_messages":
      return { kind: "delay", ms: delay_ms };
    case "double_reports":
      return { kind: "double", answer: n % 2 === 0 ? "first" : "second" };
    case "stale_reports":
      return { kind: "replay", after_ms: STALE_MS };
    case "fail_uploads":
      return { kind: "answer", status: 503 };
    case "cut_uploads":
      return { kind: "halve" };
  }
}

export class Lines {
  readonly #active = new Map<LineFault, number>();
  readonly #muted = new Set<string>();
  /** How many messages each kind has struck. */
  readonly struck = new Map<string, number>();
  cutOff = false;

  begin(fault: LineFault): void {
    this.#active.set(fault, 0);
  }

  end(fault: LineFault): void {
    this.#active.delete(fault);
  }

  /** Nothing that this runner says arrives; what it stores does. */
  mute(runner_id: string): void {
    this.#muted.add(runner_id);
  }

  unmute(runner_id: string): void {
    this.#muted.delete(runner_id);
  }

  judge(message: Passing): Treatment {
    if (this.cutOff) return this.#strike("cut_off_all", { kind: "cut" });
    if (this.#muted.size > 0 && isWord(message) && this.#muted.has(senderOf(message) ?? ""))
      return this.#strike("mute_runner", { kind: "cut" });
    for (const [fault, count] of this.#active) {
      if (!SCOPE[fault.kind](message)) continue;
      this.#active.set(fault, count + 1);
      if (count % fault.every === 0) return this.#strike(fault.kind, treatmentOf(fault, count / fault.every));
    }
    return PASS;
  }

  #strike(kind: string, treatment: Treatment): Treatment {
    this.struck.set(kind, (this.struck.get(kind) ?? 0) + 1);
    return treatment;
  }
}
