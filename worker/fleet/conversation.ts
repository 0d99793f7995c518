import { impossibleTickets } from "./assignment.ts";
import { record } from "./history.ts";
import { FORGOTTEN_MS, type PoolState, placedOn } from "./pool-state.ts";
import { saysGone } from "./runner-state.ts";
import { type Client, isBusy } from "./seats.ts";
import {
  type ExecutionRef,
  executionName,
  type Freed,
  type Hold,
  type Impossible,
  type Placed,
  type SeatOutcome,
  type SyncAnswer,
  type SyncRequest,
  type Verdict,
} from "./sync.ts";

/** The fleet's side of the conversation with an account (design section 5, "One call joins the two objects"). Pure. */

/** Syncs a second that a fleet invites from accounts with nothing new to say. */
const PERIODIC_SYNCS_PER_S = 100;
const SYNC_AGAIN_S = { least: 5, most: 120 };

/** Of what was executed its account pays the time; of what no runner took, nothing. */
const EXECUTED: ReadonlySet<SeatOutcome> = new Set(["ended", "engine_fault", "engine_killed", "handed_back"]);

/** What the history counts them as. */
const KINDS: Partial<Record<SeatOutcome, "ended" | "failed">> = {
  ended: "ended",
  handed_back: "ended",
  engine_fault: "failed",
  engine_killed: "failed",
};

/** Idempotent: every part of a request may be repeated, and every answer may be lost. */
export function converse(state: PoolState, request: SyncRequest, now: number): SyncAnswer {
  const { account } = request;
  const client = state.seats.client(account, now);
  speaks(state, client, request, now);
  for (const freed of request.freed) free(state, client, freed, now);
  for (const ref of request.drop) drop(state, client, ref);
  if (request.full) withdrawAbsent(state, client, request, now);
  const verdicts = request.hold.map((hold) => judge(state, client, hold, now));
  const repeated: Placed[] = [];
  for (const ticket of request.want) {
    const name = executionName(ticket);
    // A late request asks for what has ended since.
    if (state.freed.has(name)) continue;
    const seat = state.seats.seated.get(name);
    const runner = seat && state.runners.get(seat.runner);
    if (seat && runner) repeated.push(placedOn(runner, ticket));
    else state.lanes.add(client, ticket, now);
    state.wanted(name);
  }
  if (client.tickets.size > 0) state.lookAt(now + FORGOTTEN_MS);
  state.assign(now);
  const news = state.news.get(account);
  state.news.delete(account);
  return {
    placed: [...repeated, ...(news?.placed ?? [])],
    impossible: impossible(state, client, request, now),
    verdicts: [...verdicts, ...(news?.verdicts ?? [])],
    again_in_s: againIn(state, account),
    epoch: state.watch.started_at,
    send_full: !request.full && request.epoch !== state.watch.started_at,
  };
}

/** Its tier decides in which lines it stands. */
function speaks(state: PoolState, client: Client, { tier }: SyncRequest, now: number): void {
  const moves = client.share.tier !== tier;
  if (moves) for (const { lane } of client.tickets.values()) state.lanes.leave(lane, client);
  state.seats.speaks(client, tier, now);
  if (moves) state.lanes.sort(client);
}

/** How long the account may wait with its next full sync: longer the more there are, and never all at the same time. */
function againIn(state: PoolState, account: string): number {
  const { free, pro, enterprise } = state.seats.active;
  const seconds = Math.max(SYNC_AGAIN_S.least, (free + pro + enterprise) / PERIODIC_SYNCS_PER_S);
  return Math.min(SYNC_AGAIN_S.most, seconds * (1 + spread(account) / 4));
}

/** A number from 0 to 1 that differs from account to account. */
function spread(account: string): number {
  let hash = 0;
  for (let i = 0; i < account.length; i++) hash = (Math.imul(hash, 31) + account.charCodeAt(i)) >>> 0;
  return (Math.imul(hash, 2_654_435_769) >>> 0) / 2 ** 32;
}

function free(state: PoolState, client: Client, freed: Freed, now: number): void {
  const name = executionName(freed);
  const runner = state.runners.get(freed.runner);
  const seat = state.seats.seated.get(name);
  if (seat && seat.account !== client.account) return;
  // A late word about an earlier placement of the same name: this one is known to be held, or lies elsewhere.
  if (freed.outcome === "unused" && seat && (seat.beat || seat.runner !== freed.runner)) return;
  state.lanes.remove(client, freed);
  const known = state.freed.has(name);
  // What was never posted is in no beat, and its fence is placed again.
  if (freed.outcome !== "unused") state.freed.set(name, now);
  state.unwanted.delete(name);
  runner?.listed.delete(name);
  if (seat) {
    state.unseat(seat, EXECUTED.has(freed.outcome) ? now : seat.at, now);
    const kind = KINDS[freed.outcome];
    if (kind) record(state.history, { kind }, now);
  }
  // A repeated word teaches nothing new.
  if (runner && !known) state.learns(runner, client.account, freed.outcome, now);
}

function drop(state: PoolState, client: Client, ref: ExecutionRef): void {
  const name = executionName(ref);
  state.lanes.remove(client, ref);
  const seat = state.seats.seated.get(name);
  if (seat?.account !== client.account) return;
  state.unwanted.set(name, { runner: seat.runner, account: client.account, ref });
  seat.dropped = true;
  seat.unlisted ??= 0;
}

function withdrawAbsent(state: PoolState, client: Client, request: SyncRequest, now: number): void {
  const named = new Set([...request.want, ...request.hold].map(executionName));
  for (const [name, { ticket }] of [...client.tickets]) if (!named.has(name)) state.lanes.remove(client, ticket);
  for (const [name, seat] of [...client.seats]) {
    if (named.has(name) || seat.dropped) continue;
    // What a runner lists may still bring a result that counts; the answer to its progress says whether.
    if (!state.isListed(seat)) state.unseat(seat, now, now);
  }
}

/** What the fleet knows of an execution that its account believes to be on a runner. */
function judge(state: PoolState, client: Client, hold: Hold, now: number): Verdict {
  const { seats } = state;
  const ref = { job: hold.job, fence: hold.fence };
  const name = executionName(ref);
  const runner = state.runners.get(hold.runner);
  const known = seats.seated.get(name);
  // The account's word of where it is outranks the fleet's memory.
  if (known && known.runner !== hold.runner) state.unseat(known, known.at, now);
  const before = known?.runner === hold.runner ? known : undefined;
  const here = runner && (runner.entry.state === "active" || runner.entry.state === "draining");
  if (!here || hold.boot < runner.entry.boot) {
    if (before) state.unseat(before, before.at, now);
    return { ...ref, verdict: runner?.entry.state === "revoked" ? "revoked" : "lost" };
  }
  state.lanes.remove(client, ref);
  const seat = before ?? state.seat(client.account, ref, runner, hold.placed_at, now);
  if (!before) state.runners.changed(runner, now);
  seat.confirmed_at = now;
  state.wanted(name);
  if (hold.beat) seats.held(seat, hold.beat);
  const listed = runner.listed.get(name);
  if (listed && runner.beat) return { ...ref, verdict: "held", beat: runner.beat, running_ms: listed.running_ms };
  if (hold.kind === "undecided") seat.unlisted ??= 0;
  if (seat.beat && saysGone(runner, ref, seat.beat)) {
    state.goes(seat, now);
    state.runners.changed(runner, now);
  }
  return { ...ref, verdict: "unknown" };
}

/** Nobody is told so before the fleet has heard its runners. The tickets stay, in case a runner comes. */
function impossible(state: PoolState, client: Client, { want }: SyncRequest, now: number): Impossible[] {
  if (now < state.watch.grace_until || !isBusy(client)) return [];
  return impossibleTickets(state.runners, client, want);
}
