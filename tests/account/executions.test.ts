import { describe, expect, test } from "vitest";
import type { Account } from "../../worker/account/account.ts";
import { setSuspended } from "../../worker/account/administration.ts";
import { applyNews, dispatchAnswered, dispatchStillOpen, mayUpload } from "../../worker/account/executions.ts";
import { cancelJob, getJob } from "../../worker/account/requests.ts";
import {
  accepted,
  ended,
  failed,
  HOME,
  jobId,
  KEY,
  news,
  NOW,
  openAccount,
  owed,
  phases,
  place,
  row,
  RUNNER,
  said,
  seatOn,
  send,
  verdict,
  withRunning,
  WORD,
} from "./fixture.ts";

describe("a placement", () => {
  test("is written and owes its dispatch, once however often it is told", () => {
    const { account, restart } = openAccount();
    send(account, 1);
    said(account);
    owed(account);
    for (let i = 0; i < 3; i++) place(account, 1);
    expect(owed(account)).toEqual([{ kind: "dispatch", job_id: jobId(1), fence: 1 }]);
    expect(row(restart(), 1)).toMatchObject({ phase: "placed", fence: 1, placement: { runner: RUNNER, at: NOW } });
  });

  test("takes the retention class of the tier at that time", () => {
    const { account } = openAccount("enterprise");
    send(account, 1);
    place(account, 1);
    expect(row(account, 1).placement?.retention).toBe("d30");
  });

  /** Seats that the account gave back without a posting. */
  const unused = (account: Account) =>
    said(account)?.freed.flatMap(({ job, fence, outcome }) => (outcome === "unused" ? [{ job, fence }] : []));

  test("is given back where the row does not allow it, and the fleet is told at once", () => {
    const { account } = openAccount("free");
    for (const n of [1, 2, 3]) send(account, n);
    said(account);
    owed(account);
    applyNews(account, HOME, news({ placed: [seatOn(3, 1), seatOn(1, 2), seatOn(77, 1)] }), NOW);
    expect(phases(account, 1, 3)).toEqual(["ready", "waiting"]);
    expect(owed(account)).toEqual([{ kind: "sync" }]);
    expect(unused(account)).toEqual([
      { job: jobId(3), fence: 1 },
      { job: jobId(1), fence: 2 },
    ]);
  });

  test("of a job that has ended meanwhile is given back", () => {
    const { account } = openAccount();
    send(account, 1);
    cancelJob(account, KEY, jobId(1), NOW);
    said(account);
    place(account, 1, 1);
    expect(unused(account)).toEqual([{ job: jobId(1), fence: 1 }]);
  });

  test("that was written before, or of a job that nobody knows, is dropped: its runner has the last word", () => {
    const { account } = withRunning();
    ended(account, 1);
    said(account);
    applyNews(account, HOME, news({ placed: [seatOn(1, 1), seatOn(77, 1)] }), NOW);
    expect(said(account)).toMatchObject({
      freed: [],
      drop: [
        { job: jobId(1), fence: 1 },
        { job: jobId(77), fence: 1 },
      ],
    });
  });

  test("of a suspended account is given back, and its tickets are withdrawn", () => {
    const { account } = openAccount();
    send(account, 1);
    said(account);
    setSuspended(account, true, NOW);
    expect(said(account)).toMatchObject({ full: true, want: [] });
    place(account, 1);
    expect(phases(account, 1)).toEqual(["ready"]);
    expect(unused(account)).toEqual([{ job: jobId(1), fence: 1 }]);
    setSuspended(account, false, NOW);
    expect(said(account)?.want).toHaveLength(1);
  });

  test("lets a suspended account's running job end", () => {
    const { account } = withRunning();
    setSuspended(account, true, NOW);
    expect(ended(account, 1)).toBe("ok");
    expect(row(account, 1).end?.status).toBe("completed");
  });
});

describe("an impossible ticket", () => {
  test("leaves its job in ready and is asked again in a full sync only", () => {
    const { account } = openAccount();
    send(account, 1);
    said(account);
    applyNews(account, HOME, news({ impossible: [{ job: jobId(1), fence: 1, hopeless: false }] }), NOW);
    expect(phases(account, 1)).toEqual(["ready"]);
    expect(said(account)).toBeUndefined();
    account.links.forget();
    expect(said(account)?.want.map(({ job }) => job)).toEqual([jobId(1)]);
  });

  test("fails a job whose error asks for another runner, where there is none", () => {
    const { account } = withRunning();
    ended(account, 1, 1, failed("out_of_memory"));
    expect(phases(account, 1)).toEqual(["ready"]);
    said(account);
    applyNews(account, HOME, news({ impossible: [{ job: jobId(1), fence: 2, hopeless: true }] }), NOW);
    expect(row(account, 1).end?.error?.code).toBe("out_of_memory");
  });
});

describe("a verdict", () => {
  test("of loss counts once for each fence, however often it is told", () => {
    const { account } = withRunning();
    for (let i = 0; i < 3; i++) applyNews(account, HOME, verdict(1, 1, "lost"), NOW);
    expect(row(account, 1)).toMatchObject({ phase: "ready", losses: 1 });
    place(account, 1, 2);
    applyNews(account, HOME, verdict(1, 1, "lost"), NOW);
    expect(phases(account, 1)).toEqual(["placed"]);
  });

  test("of refusal frees a placed job and touches no running one", () => {
    const { account } = openAccount();
    send(account, 1);
    place(account, 1);
    applyNews(account, HOME, verdict(1, 1, "refused"), NOW);
    expect(row(account, 1)).toMatchObject({ phase: "ready", losses: 0, avoid: [RUNNER] });
    const other = withRunning().account;
    applyNews(other, HOME, verdict(1, 1, "refused"), NOW);
    expect(phases(other, 1)).toEqual(["running"]);
  });

  test("that it is held proves acceptance", () => {
    const { account } = openAccount();
    send(account, 1);
    place(account, 1);
    applyNews(account, HOME, news({ verdicts: [{ job: jobId(1), fence: 1, verdict: "held", ...WORD }] }), NOW);
    expect(account.load(jobId(1))?.job.phase).toBe("running");
  });

  test("that its runner is revoked takes the execution away for good: nothing that it still says counts", () => {
    const { account } = withRunning();
    applyNews(account, HOME, verdict(1, 1, "revoked"), NOW);
    const before = row(account, 1);
    expect(before).toMatchObject({ phase: "ready", losses: 1, avoid: [RUNNER] });
    expect(mayUpload(account, jobId(1), 1)).toBe(false);
    expect(ended(account, 1)).toBe("ok");
    expect(row(account, 1)).toEqual(before);
    place(account, 1, 2);
    expect(phases(account, 1)).toEqual(["placed"]);
  });

  test("that its runner is revoked costs no attempt where nobody had accepted the job", () => {
    const { account } = openAccount();
    send(account, 1);
    place(account, 1);
    applyNews(account, HOME, verdict(1, 1, "revoked"), NOW);
    expect(row(account, 1)).toMatchObject({ phase: "ready", losses: 0, fence_over: "reported" });
  });

  test("of which nothing is known changes nothing", () => {
    const { account } = withRunning();
    const before = row(account, 1);
    applyNews(account, HOME, verdict(1, 1, "unknown"), NOW);
    expect(row(account, 1)).toEqual(before);
  });
});

describe("acceptance", () => {
  const unwritten = () => {
    const opened = openAccount();
    send(opened.account, 1);
    place(opened.account, 1);
    accepted(opened.account, 1, 1, NOW + 400);
    return opened;
  };

  test("is remembered, and costs no write of its own", () => {
    const { account } = unwritten();
    expect(phases(account, 1)).toEqual(["placed"]);
    expect(account.unwritten).toBe(true);
  });

  test("is written before anybody is shown `running`", () => {
    const { account, restart } = unwritten();
    expect(getJob(account, KEY, jobId(1), NOW + 500).value?.record).toMatchObject({ status: "running", attempt: 1 });
    expect(row(restart(), 1)).toMatchObject({ phase: "running", started_at: NOW + 400 });
  });

  test("is written with the next transaction", () => {
    const { account, restart } = unwritten();
    send(account, 2);
    expect(phases(restart(), 1)).toEqual(["running"]);
  });

  test("moves the job's deadline to the end of its lease", () => {
    const { account } = unwritten();
    account.writeBehind();
    account.store.clearTimer("sync", "");
    expect(account.store.earliestTimer()).toBe(NOW + 600_000 + 900_000);
  });

  test("is heard from an answer for the current fence of a placed row only", () => {
    const { account } = openAccount();
    send(account, 1);
    accepted(account, 1);
    place(account, 1);
    accepted(account, 1, 2);
    account.writeBehind();
    expect(phases(account, 1)).toEqual(["placed"]);
  });

  test("ends the repeats of the dispatch, which end after 60 s in any case", () => {
    const { account } = openAccount();
    send(account, 1);
    place(account, 1);
    expect(dispatchStillOpen(account, jobId(1), 1, NOW + 59_999)).toBeDefined();
    expect(dispatchStillOpen(account, jobId(1), 1, NOW + 60_000)).toBeUndefined();
    accepted(account, 1);
    expect(dispatchStillOpen(account, jobId(1), 1, NOW)).toBeUndefined();
  });
});

describe("an answer to a dispatch", () => {
  test("of unknown outcome changes nothing", () => {
    const { account } = openAccount();
    send(account, 1);
    place(account, 1);
    dispatchAnswered(account, jobId(1), 1, { kind: "unknown", reason: "time-out" }, NOW);
    expect(phases(account, 1)).toEqual(["placed"]);
  });

  test("of refusal tells the fleet how", () => {
    const { account } = openAccount();
    send(account, 1);
    place(account, 1);
    said(account);
    dispatchAnswered(account, jobId(1), 1, { kind: "refused", outcome: "strike" }, NOW);
    expect(said(account)?.freed).toEqual([{ job: jobId(1), fence: 1, runner: RUNNER, outcome: "strike" }]);
  });

  test("that comes after the job went on is not heard", () => {
    const { account } = withRunning();
    dispatchAnswered(account, jobId(1), 1, { kind: "refused", outcome: "refused_full" }, NOW);
    expect(phases(account, 1)).toEqual(["running"]);
  });

  test("that the prompt is gone fails the job", () => {
    const { account } = openAccount();
    send(account, 1);
    place(account, 1);
    dispatchAnswered(account, jobId(1), 1, { kind: "no_prompt" }, NOW);
    expect(row(account, 1).end?.error?.code).toBe("internal_error");
  });
});
