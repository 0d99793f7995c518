import { describe, expect, test } from "vitest";
import { applyNews, mayUpload, progress } from "../../worker/account/executions.ts";
import { getJob } from "../../worker/account/requests.ts";
import {
  ACCOUNT,
  completed,
  ended,
  handedBack,
  HOME,
  jobId,
  KEY,
  NOW,
  openAccount,
  owed,
  phases,
  place,
  row,
  RUNNER,
  said,
  send,
  verdict,
  withRunning,
  WORD,
} from "./fixture.ts";

describe("progress", () => {
  const report = { ...WORD, progress: { value: 0.5 } };

  test("is shown while the job runs and forgotten when it ends", () => {
    const { account } = withRunning();
    expect(progress(account, jobId(1), 1, report, NOW)).toBe("current");
    expect(getJob(account, KEY, jobId(1), NOW).value?.record.progress).toEqual({ value: 0.5 });
    ended(account, 1);
    expect(getJob(account, KEY, jobId(1), NOW).value?.record.progress).toBeUndefined();
    expect(account.progress.size).toBe(0);
  });

  test("of another execution or an ended job is fenced, of an unknown job unknown", () => {
    const { account } = withRunning();
    expect(progress(account, jobId(1), 2, report, NOW)).toBe("fenced");
    expect(progress(account, jobId(2), 1, report, NOW)).toBe("unknown");
    ended(account, 1);
    expect(progress(account, jobId(1), 1, report, NOW)).toBe("fenced");
  });

  test("on a row that is back in ready changes nothing and is not fenced", () => {
    const { account } = withRunning();
    applyNews(account, HOME, verdict(1, 1, "lost"), NOW);
    const before = row(account, 1);
    expect(progress(account, jobId(1), 1, report, NOW)).toBe("current");
    account.writeBehind();
    expect(row(account, 1)).toEqual(before);
  });

  test("that overtakes the 202 proves acceptance", () => {
    const { account } = openAccount();
    send(account, 1);
    place(account, 1);
    progress(account, jobId(1), 1, report, NOW);
    expect(getJob(account, KEY, jobId(1), NOW).value?.record.status).toBe("running");
  });
});

describe("an upload", () => {
  test("is allowed to the current fence until its report, also after a loss", () => {
    const { account } = withRunning();
    expect(mayUpload(account, jobId(1), 1)).toBe(true);
    expect(mayUpload(account, jobId(1), 2)).toBe(false);
    applyNews(account, HOME, verdict(1, 1, "lost"), NOW);
    expect(mayUpload(account, jobId(1), 1)).toBe(true);
    place(account, 1, 2);
    expect(mayUpload(account, jobId(1), 1)).toBe(false);
    ended(account, 1, 2, handedBack);
    expect(mayUpload(account, jobId(1), 2)).toBe(false);
  });

  test("is refused once the job has ended", () => {
    const { account } = withRunning();
    ended(account, 1);
    expect(mayUpload(account, jobId(1), 1)).toBe(false);
  });
});

describe("an end report", () => {
  test("writes the result, owes the webhook, frees the slot and promotes the next job in one step", () => {
    const { account, restart } = withRunning({ webhook_url: "https://hooks.example/a" });
    for (const n of [2, 3]) send(account, n);
    expect(phases(account, 2, 3)).toEqual(["ready", "waiting"]);
    owed(account);
    said(account);
    expect(ended(account, 1, 1, completed(), NOW + 900)).toBe("ok");
    const after = restart();
    expect(row(after, 1).end).toMatchObject({ status: "completed", fence: 1 });
    expect(after.store.files(jobId(1)).map(({ filename }) => filename)).toEqual(["a.png"]);
    expect(after.store.prompt(jobId(1))).toBeUndefined();
    expect(after.store.delivery(jobId(1))).toMatchObject({ status: "pending", round: 1, n: 0, due_at: NOW + 900 });
    expect(phases(after, 2, 3)).toEqual(["ready", "ready"]);
    expect(owed(account)).toEqual([{ kind: "sync" }, { kind: "deliver", job_id: jobId(1), round: 1, delay_s: 0 }]);
    const request = said(account);
    expect(request?.freed).toEqual([{ job: jobId(1), fence: 1, runner: RUNNER, outcome: "ended" }]);
    expect(request?.want.map(({ job }) => job)).toEqual([jobId(3)]);
  });

  test("shows the outputs with the fence and the class that they lie under", () => {
    const { account } = withRunning();
    ended(account, 1);
    expect(getJob(account, KEY, jobId(1), NOW).value?.outputs).toMatchObject({
      account: ACCOUNT,
      fence: 1,
      retention: "d1",
    });
  });

  test("that is repeated gets the same answer and owes nothing", () => {
    const { account } = withRunning({ webhook_url: "https://hooks.example/a" });
    ended(account, 1);
    owed(account);
    const before = row(account, 1);
    expect(ended(account, 1, 1, completed(), NOW + 5_000)).toBe("ok");
    expect(row(account, 1)).toEqual(before);
    expect(owed(account)).toEqual([]);
  });

  test("of a fence that lost is fenced, and gone after the end", () => {
    const { account } = withRunning();
    applyNews(account, HOME, verdict(1, 1, "lost"), NOW);
    place(account, 1, 2);
    expect(ended(account, 1, 1)).toBe("fenced");
    expect(ended(account, 1, 2)).toBe("ok");
    expect(ended(account, 1, 1)).toBe("gone");
    expect(ended(account, 9, 1)).toBe("unknown");
  });

  test("owes no webhook where none was asked for", () => {
    const { account } = withRunning();
    ended(account, 1);
    expect(account.store.delivery(jobId(1))).toBeUndefined();
  });
});

describe("removals", () => {
  test("of a losing fence's outputs are owed at the end, and again after the job's last lease", () => {
    const { account } = withRunning();
    applyNews(account, HOME, verdict(1, 1, "lost"), NOW);
    place(account, 1, 2, NOW + 1_000);
    owed(account);
    ended(account, 1, 2);
    const lease = NOW + 1_000 + 1_500_000;
    expect(owed(account)).toContainEqual({
      kind: "remove",
      removal: { what: "prefix", key: `o/d1/${ACCOUNT}/${jobId(1)}/1/`, again_at: lease },
    });
    expect(row(account, 1).lease_until).toBe(lease);
  });

  test("of a prompt in R2 are owed when the job ends, and of no other", () => {
    const { account } = withRunning({ large: true });
    ended(account, 1);
    expect(owed(account)).toContainEqual({
      kind: "remove",
      removal: { what: "object", key: `prompts/${ACCOUNT}/${jobId(1)}` },
    });
    const small = withRunning().account;
    ended(small, 1);
    expect(owed(small).some(({ kind }) => kind === "remove")).toBe(false);
  });
});
