import { DISPATCH_REPEAT_MS } from "../../worker/account/jobs.ts";
import { outputPrefix } from "../../worker/account/outbox.ts";
import { KEYS } from "./account-node.ts";
import type { Schedule } from "./schedule.ts";
import { holds } from "./violation.ts";

/** What is not at rest yet; undefined where everything is. */
export function unrest(schedule: Schedule): { what: string; detail: unknown } | undefined {
  for (const { id, rows } of schedule.accounts.values()) {
    const open = rows.inPhases(["waiting", "ready", "placed", "running"], 10);
    if (open.length > 0) return { what: "a job is open", detail: { id, open } };
  }
  for (const { account, job } of schedule.clients.accepted) {
    const delivery = account.rows.delivery(job);
    if (delivery?.status === "pending") return { what: "a delivery is open", detail: delivery };
  }
  for (const runner of schedule.runners.values())
    if (!runner.idle) return { what: "a runner holds a fence", detail: { runner: runner.machine, held: runner.held } };
  for (const { name, pool } of schedule.fleets.values()) {
    const { runners, seats, state } = pool;
    for (const order of state.unwanted.values()) return { what: "a stop order is left", detail: order };
    for (const [account, { tickets }] of seats.clients)
      if (tickets.size > 0) return { what: "a ticket waits", detail: { name, account, tickets: [...tickets.keys()] } };
    for (const [seat, detail] of seats.seated) return { what: "a seat is held", detail: { name, seat, detail } };
    for (const { entry, listed, placed } of runners.values())
      if (entry.state !== "revoked" && listed.size + placed.size > 0)
        return { what: "a runner's seat is taken", detail: { entry, listed: [...listed.keys()], placed: [...placed] } };
  }
  for (const { id, disk } of schedule.accounts.values())
    for (const { kind, ref } of disk.timers())
      if (kind !== "job" && kind !== "removal") return { what: "a timer is left", detail: { id, kind, ref } };
  return undefined;
}

/** 60 s of repeats, two beats, the account's next words, and some room. */
const DECIDED_WITHIN_MS = 100_000;

/** Once its runner can be reached: the longest pause between two repeats, their time-outs, and some room. */
const POSTED_WITHIN_MS = 25_000;
/** The longest pause between two words of progress, an engine that is slow to stop, and a few end reports. */
const STOPPED_WITHIN_MS = 75_000;

/** What holds at any moment after the faults. */
export function judgeLook({ world, accounts, runners, unwanted }: Schedule, calm: number): void {
  for (const { id, rows, clockSetFrom } of accounts.values())
    for (const { job_id, placement } of rows.inPhases(["placed"], 1000)) {
      const since = Math.max(placement?.at ?? 0, calm);
      const show = () => ({ id, job_id, placement });
      holds(world.now <= since + DECIDED_WITHIN_MS, "a placement is decided in time", show);
      const runner = [...runners.values()].find(({ machine }) => machine.runner_id === placement?.runner);
      // A clock that was set since may have ended the repeats; both moments are of the account's own clock.
      if (!runner?.alive || clockSetFrom >= (placement?.at ?? 0)) continue;
      const reached = Math.max(since, runner.reachableSince);
      // Where the repeats are over before, the beats decide.
      if (reached + POSTED_WITHIN_MS > (placement?.at ?? 0) + DISPATCH_REPEAT_MS) continue;
      holds(world.now <= reached + POSTED_WITHIN_MS, "a dispatch is posted until it is answered", show);
    }
  for (const runner of runners.values())
    for (const name of runner.held) {
      const [account = "", id = "", fence] = name.split("/");
      const job = accounts.get(account)?.rows.job(id)?.job;
      const wanted = job !== undefined && job.phase !== "ended" && job.fence === Number(fence);
      const since = wanted ? world.now : (unwanted.get(name) ?? world.now);
      unwanted.set(name, since);
      const free = Math.max(since, calm, runner.reachableSince);
      holds(world.now <= free + STOPPED_WITHIN_MS, "what nobody wants is stopped", () => name);
    }
}

/** What holds when everything is at rest. */
export function judgeEnd(schedule: Schedule): void {
  const ends = schedule.world;
  for (const { account, job: id, unwanted } of schedule.clients.accepted) {
    const { rows } = account;
    const job = rows.job(id)?.job;
    if (unwanted && !job) continue;
    holds(job?.end !== undefined, "what was accepted has ended", () => ({ id, job }));
    ends.count(`end: ${job.end.error?.code ?? job.end.status}`);
    holds((rows.delivery(id) !== undefined) === (job.webhook_url !== undefined), "each end has one webhook", () => id);
  }
  for (const { id, rows } of schedule.accounts.values())
    for (const key of KEYS) {
      const { slots, places } = rows.use(key);
      holds(slots + places === 0, "no slot or place is left", () => ({ id, key, slots, places }));
    }
  judgeOutputs(schedule);
}

/** What is stored belongs to a winning fence, or its removal is still owed. */
function judgeOutputs({ bucket, accounts, clients }: Schedule): void {
  const owed = new Map<string, string[]>();
  for (const { id, disk } of accounts.values())
    owed.set(
      id,
      disk.timers().flatMap(({ kind, ref }) => (kind === "removal" ? [(JSON.parse(ref) as string[])[1] ?? ""] : [])),
    );
  for (const key of bucket.keys) {
    const parts = key.split("/");
    const [account, id, fence] = parts[0] === "prompts" ? parts.slice(1) : parts.slice(2);
    if (parts[0] === "prompts" && clients.unknown.has(id ?? "")) continue;
    const job = accounts.get(account ?? "")?.rows.job(id ?? "")?.job;
    const wins = fence !== undefined && job?.end?.status === "completed" && job.end.fence === Number(fence);
    const right =
      wins && key.startsWith(outputPrefix(job.end?.retention ?? "d1", account ?? "", id ?? "", Number(fence)));
    const removed = owed.get(account ?? "")?.some((prefix) => key.startsWith(prefix));
    holds(right || removed === true, "what nobody is shown is removed", () => ({
      key,
      end: job?.end,
      stale: job?.stale,
    }));
  }
}
