import { decodeJwt } from "jose";
import { EDGE_PATHS, RUNNER_PATHS } from "../../schemas/runner-protocol.ts";
import type { Answer, Passing } from "./proxy.ts";

/** What passed between service and runners: who took which execution, whose result was taken, how long recovery took. */

interface Held {
  readonly job: string;
  readonly fence: number;
  readonly runner: number;
}

interface Interrupted {
  readonly job: string;
  readonly fence: number;
  readonly at: number;
  readonly how: InterruptionKind;
}

export type InterruptionKind = "killed" | "restarted" | "frozen" | "muted";

const nameOf = ({ job, fence }: { job: string; fence: number }): string => `${job}.${fence}`;

export class Traffic {
  readonly #held = new Map<string, Held>();
  readonly #takers = new Map<string, number>();
  readonly #results = new Map<string, Set<number>>();
  #interrupted: Interrupted[] = [];
  /** From the loss of a runner until a job that it ran runs elsewhere, milliseconds. */
  readonly recoveries = new Map<InterruptionKind, number[]>();
  readonly violations: string[] = [];
  /** Answers by route and status, of either side. */
  readonly answers = new Map<string, number>();

  /** A message was answered on the way to runner number `runner`. */
  toRunner(runner: number, { path, body }: Passing, { status }: Answer, now: number): void {
    this.#count(`edge -> runner ${path}`, status);
    if (path !== RUNNER_PATHS.executions || status !== 202) return;
    const { job, fence } = JSON.parse(body.toString("utf8")) as { job: string; fence: number };
    const name = nameOf({ job, fence });
    const taker = this.#takers.get(name);
    if (taker !== undefined && taker !== runner)
      this.violations.push(`execution ${name} was taken by runner ${taker} and by runner ${runner}`);
    this.#takers.set(name, runner);
    this.#held.set(name, { job, fence, runner });
    this.#interrupted = this.#interrupted.filter((interrupted) => {
      if (interrupted.job !== job || interrupted.fence >= fence) return true;
      this.recoveries.set(interrupted.how, [...(this.recoveries.get(interrupted.how) ?? []), now - interrupted.at]);
      return false;
    });
  }

  /** A message was answered on the way to the edge. */
  toEdge({ path, headers, body }: Passing, { status }: Answer): void {
    this.#count(`runner -> edge ${path.replace(/\d+$/, "N")}`, status);
    if (path !== EDGE_PATHS.end || status === 401 || status >= 500) return;
    const { job, fence } = decodeJwt<{ job: string; fence: number }>(String(headers.authorization).split(" ")[1] ?? "");
    this.#held.delete(nameOf({ job, fence }));
    if (status !== 200) return;
    this.#interrupted = this.#interrupted.filter((interrupted) => interrupted.job !== job);
    const { outcome } = JSON.parse(body.toString("utf8")) as { outcome: string };
    if (outcome !== "completed") return;
    const fences = (this.#results.get(job) ?? new Set()).add(fence);
    this.#results.set(job, fences);
    if (fences.size > 1)
      this.violations.push(`results of executions ${[...fences].join(" and ")} of job ${job} were taken`);
  }

  /** Runner number `runner` is gone or silent from now on. Returns how many executions it held. */
  interrupted(runner: number, how: InterruptionKind, now: number): number {
    let count = 0;
    for (const [name, held] of this.#held) {
      if (held.runner !== runner) continue;
      count++;
      this.#interrupted.push({ job: held.job, fence: held.fence, at: now, how });
      if (how === "killed" || how === "restarted") this.#held.delete(name);
    }
    return count;
  }

  /** The fence whose result was taken; undefined where none was. */
  resultOf(job: string): number | undefined {
    return [...(this.#results.get(job) ?? [])][0];
  }

  #count(route: string, status: number): void {
    const name = `${route} ${status}`;
    this.answers.set(name, (this.answers.get(name) ?? 0) + 1);
  }
}
