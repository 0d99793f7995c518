import { expect, test } from "vitest";
import type { Account } from "../../worker/account/account.ts";
import { applyNews, dispatchAnswered, endExecution } from "../../worker/account/executions.ts";
import { MAX_TICKETS } from "../../worker/fleet/sync.ts";
import { completed, jobId, NOW, news, openAccount, place, RUNNER, send, WORD } from "./fixture.ts";

const said = (account: Account, now = NOW) => account.link.request(account.store, account.mustSettings, now);

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
  endExecution(account, jobId(1), 1, RUNNER, completed(), NOW);
  const request = said(account);
  expect(request?.freed).toHaveLength(1);
  if (request) account.link.unanswered(request);
  expect(said(account)).toMatchObject({ full: true, want: [{ job: jobId(2) }], freed: request?.freed });
});

test("a dispatch that nobody answered for 60 s is undecided from then on", () => {
  const { account } = openAccount();
  send(account, 1);
  place(account, 1);
  const kind = (now: number) => {
    account.link.forget();
    return said(account, now)?.hold[0]?.kind;
  };
  expect(kind(NOW + 59_999)).toBe("trying");
  expect(kind(NOW + 60_000)).toBe("undecided");
});

test("an account has at most 64 tickets out, oldest first, and impossible ones do not count", () => {
  const { account } = openAccount("enterprise");
  for (let n = 1; n <= 50; n++) send(account, n);
  for (let n = 51; n <= 100; n++) send(account, n, { key: "key-two" });
  const first = said(account)?.want.map(({ job }) => job) ?? [];
  expect(first).toEqual(Array.from({ length: MAX_TICKETS }, (_, i) => jobId(i + 1)));
  const impossible = first.slice(0, 10).map((job) => ({ job, fence: 1, excluded: false }));
  applyNews(account, news({ impossible }), NOW);
  expect(said(account)?.want.map(({ job }) => job)).toEqual(Array.from({ length: 10 }, (_, i) => jobId(65 + i)));
});

test("a suspended account asks for no seat and goes on holding", () => {
  const { account } = openAccount();
  for (const n of [1, 2]) send(account, n);
  place(account, 1);
  const request = account.link.request(account.store, { ...account.mustSettings, suspended: true }, NOW);
  expect(request).toMatchObject({ want: [], hold: [{ job: jobId(1) }] });
});
