import { expect, test } from "vitest";
import { addKey } from "../../worker/account/administration.ts";
import { applyNews, dispatchAnswered, endExecution } from "../../worker/account/executions.ts";
import { cancelJob } from "../../worker/account/requests.ts";
import { MAX_TICKETS } from "../../worker/fleet/sync.ts";
import {
  BY,
  completed,
  HOME,
  jobId,
  KEY,
  news,
  NOW,
  openAccount,
  OTHER_KEY,
  owed,
  place,
  RUNNER,
  said,
  seatOn,
  send,
  WORD,
} from "./fixture.ts";

test("a process that has just started says everything: tickets, and what it believes to be held", () => {
  const { account, restart } = openAccount("pro");
  for (const n of [1, 2, 3]) send(account, n);
  place(account, 1);
  place(account, 2);
  dispatchAnswered(account, jobId(2), 1, { kind: "accepted", ...WORD }, NOW);
  account.writeBehind();
  expect(said(restart())).toMatchObject({
    full: true,
    want: [{ job: jobId(3), fence: 1 }],
    hold: [
      { job: jobId(1), fence: 1, kind: "trying", runner: RUNNER, boot: 3, placed_at: NOW },
      { job: jobId(2), fence: 1, kind: "accepted", beat: WORD.beat },
    ],
  });
});

test("what was told is not told again, and there is nothing to say without news", () => {
  const { account } = openAccount("pro");
  send(account, 1);
  expect(said(account)?.want).toHaveLength(1);
  expect(said(account)).toBeUndefined();
  send(account, 2);
  expect(said(account)).toMatchObject({ full: false, want: [{ job: jobId(2) }] });
});

test("a request that was not answered is said again, and what only it said with it", () => {
  const { account } = openAccount("pro");
  for (const n of [1, 2]) send(account, n);
  place(account, 1);
  said(account);
  endExecution(account, jobId(1), 1, BY, completed(), NOW);
  const request = said(account);
  expect(request?.freed).toHaveLength(1);
  if (request) account.links.of(HOME).unanswered(request);
  expect(said(account)).toMatchObject({ full: true, want: [{ job: jobId(2) }], freed: request?.freed });
});

test("a dispatch that nobody answered for 60 s is undecided from then on", () => {
  const { account } = openAccount();
  send(account, 1);
  place(account, 1);
  const kind = (now: number) => {
    account.links.forget();
    return said(account, now)?.hold[0]?.kind;
  };
  expect(kind(NOW + 59_999)).toBe("trying");
  expect(kind(NOW + 60_000)).toBe("undecided");
});

/** An account of two keys with 50 ready jobs each: 1 to 50 and 51 to 100. */
function crowded() {
  const opened = openAccount("enterprise");
  for (let n = 1; n <= 50; n++) send(opened.account, n);
  for (let n = 51; n <= 100; n++) send(opened.account, n, { key: OTHER_KEY });
  return opened;
}

/** The two keys in turn, so many jobs of them, those before `first` left out. */
const inTurns = (first: number, last: number): string[] =>
  Array.from({ length: last }, (_, i) => jobId(i % 2 ? 51 + (i - 1) / 2 : 1 + i / 2)).slice(first - 1);

const jobsOf = (refs: readonly { readonly job: string }[] | undefined): string[] => (refs ?? []).map(({ job }) => job);

test("an account has at most 64 tickets out, the most urgent, and impossible ones do not count", () => {
  const { account } = crowded();
  const first = jobsOf(said(account)?.want);
  expect(first).toEqual(inTurns(1, MAX_TICKETS));
  const impossible = first.slice(0, 10).map((job) => ({ job, fence: 1, hopeless: false }));
  applyNews(account, HOME, news({ impossible }), NOW);
  expect(jobsOf(said(account)?.want)).toEqual(inTurns(65, 74));
});

test("more urgent jobs take the place of tickets that are out, and those are taken back", () => {
  const { account } = crowded();
  said(account);
  addKey(account, { key_hash: "key-three", prefix: "sk_live_cccc", name: "three" }, NOW);
  for (const n of [201, 202, 203]) send(account, n, { key: "key-three", priority: -10 });
  const request = said(account);
  expect(request).toMatchObject({ full: false });
  expect(jobsOf(request?.want)).toEqual([201, 202, 203].map(jobId));
  expect(request?.drop).toEqual(inTurns(62, 64).map((job) => ({ job, fence: 1 })));
  expect(said(account)).toBeUndefined();
});

test("what was taken back is asked for again as soon as there is room", () => {
  const { account } = crowded();
  said(account);
  addKey(account, { key_hash: "key-three", prefix: "sk_live_cccc", name: "three" }, NOW);
  send(account, 201, { key: "key-three" });
  expect(jobsOf(said(account)?.drop)).toEqual(inTurns(64, 64));
  place(account, 51);
  expect(jobsOf(said(account)?.want)).toEqual(inTurns(64, 64));
});

test("a full sync of more tickets than the bound leaves the impossible ones at the fleet", () => {
  const { account } = crowded();
  const [first = ""] = jobsOf(said(account)?.want);
  const impossible = [{ job: first, fence: 1, hopeless: false }];
  applyNews(account, HOME, news({ impossible }), NOW);
  said(account);
  account.links.forget();
  expect(jobsOf(said(account)?.want)).toContain(first);
  applyNews(account, HOME, news({ impossible }), NOW);
  expect(account.links.of(HOME).knows({ job: first, fence: 1 })).toBe(true);
  cancelJob(account, KEY, first, NOW);
  expect(jobsOf(said(account)?.drop)).toEqual([first]);
});

test("a placement that crosses the taking back of its ticket is told as held at once", () => {
  const { account } = crowded();
  said(account);
  addKey(account, { key_hash: "key-three", prefix: "sk_live_cccc", name: "three" }, NOW);
  send(account, 201, { key: "key-three" });
  const [dropped = ""] = jobsOf(said(account)?.drop);
  owed(account);
  applyNews(account, HOME, news({ placed: [{ ...seatOn(1, 1), job: dropped }] }), NOW);
  // The fleet has heard that nobody wants it, and would have it stopped.
  expect(owed(account)).toContainEqual({ kind: "sync" });
  expect(jobsOf(said(account)?.hold)).toEqual([dropped]);
});

test("a ticket says of which key it is, and of no more of the key than tells it apart", () => {
  const { account } = openAccount();
  addKey(account, { key_hash: "0123456789abcdef", prefix: "sk_live_dddd", name: "long" }, NOW);
  send(account, 1, { key: "0123456789abcdef" });
  expect(said(account)?.want).toMatchObject([{ job: jobId(1), key: "01234567" }]);
});

test("a suspended account asks for no seat and goes on holding", () => {
  const { account } = openAccount();
  for (const n of [1, 2]) send(account, n);
  place(account, 1);
  const request = account.links.request(HOME, account.store, { ...account.mustSettings, suspended: true }, NOW);
  expect(request).toMatchObject({ want: [], hold: [{ job: jobId(1) }] });
});
