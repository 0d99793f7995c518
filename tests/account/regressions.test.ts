import { expect, test } from "vitest";
import { applyNews, dispatchAnswered, endExecution } from "../../worker/account/executions.ts";
import { fire } from "../../worker/account/timers.ts";
import {
  BY,
  completed,
  failed,
  handedBack,
  HOME,
  jobId,
  news,
  NOW,
  openAccount,
  place,
  row,
  said,
  send,
  verdict,
} from "./fixture.ts";

test("words that the fleet may not have are said again after the last job has ended", () => {
  const { account } = openAccount();
  send(account, 1);
  place(account, 1);
  said(account);
  endExecution(account, jobId(1), 1, BY, completed(), NOW);
  const request = said(account);
  if (request) account.links.of(HOME).unanswered(request);
  account.takeEffects();
  fire(account, { kind: "sync", ref: "", due_at: NOW, tries: 0 }, NOW + 2_000);
  expect(account.takeEffects()).toEqual([{ kind: "sync" }]);
});

test("a job that is given up takes its ticket back", () => {
  const { account } = openAccount();
  send(account, 1);
  place(account, 1);
  endExecution(account, jobId(1), 1, BY, failed("out_of_memory"), NOW);
  said(account);
  applyNews(account, HOME, news({ impossible: [{ job: jobId(1), fence: 2, hopeless: true }] }), NOW);
  expect(said(account)?.drop).toEqual([{ job: jobId(1), fence: 2 }]);
});

test("a late result takes back the ticket of the next attempt", () => {
  const { account } = openAccount();
  send(account, 1);
  place(account, 1);
  applyNews(account, HOME, verdict(1, 1, "lost"), NOW);
  said(account);
  endExecution(account, jobId(1), 1, BY, completed(), NOW);
  expect(said(account)?.drop).toEqual([{ job: jobId(1), fence: 2 }]);
});

test("no request drops what it wants", () => {
  const { account } = openAccount("free");
  for (const n of [1, 2]) send(account, n);
  said(account);
  send(account, 3, { priority: 5 });
  const dropping = said(account);
  if (dropping) account.links.of(HOME).unanswered(dropping);
  place(account, 1);
  endExecution(account, jobId(1), 1, BY, completed(), NOW);
  const request = said(account);
  const wanted = request?.want.map(({ job }) => job) ?? [];
  expect(wanted).toContain(jobId(2));
  expect(request?.drop.filter(({ job }) => wanted.includes(job))).toEqual([]);
});

test("every hand-back's outputs are removed, the last one's too", () => {
  const { account } = openAccount();
  send(account, 1);
  for (let n = 1; n <= 8; n++) {
    place(account, 1, n);
    endExecution(account, jobId(1), n, BY, handedBack, NOW);
  }
  expect(row(account, 1).stale.map(({ fence }) => fence)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
});

test("a job that was refused but never started yields its slot to a higher priority", () => {
  const { account } = openAccount("free");
  for (const n of [1, 2]) {
    send(account, n);
    place(account, n);
  }
  dispatchAnswered(account, jobId(2), 1, { kind: "refused", outcome: "refused_full" }, NOW);
  send(account, 3, { priority: 5 });
  expect(row(account, 3).phase).toBe("ready");
});
