import { expect, test } from "vitest";
import { endExecution } from "../../worker/account/executions.ts";
import { beginDelivery, finishDelivery } from "../../worker/account/notifications.ts";
import { fire } from "../../worker/account/timers.ts";
import { Clock } from "../simulation/clock.ts";
import { BY, completed, jobId, NOW, OTHER_KEY, KEY, openAccount, place, send } from "./fixture.ts";

/** More ends than receivers take: 8 jobs a second, each delivery in flight for 10 s, 50 at a time. In played time. */

function play(seconds: number, { ok, latency_ms }: { ok: boolean; latency_ms: number }) {
  const { account } = openAccount("enterprise");
  const clock = new Clock(NOW);
  const counts = { sent: 0, swept: 0 };
  const first = new Map<number, number>();
  const perform = () => {
    for (const effect of account.takeEffects()) {
      if (effect.kind !== "deliver") continue;
      counts.sent++;
      clock.after(effect.delay_s * 1000 + latency_ms, () => consume(effect.job_id, effect.round));
    }
  };
  const consume = (job: string, round: number) => {
    const begun = beginDelivery(account, job, round, clock.now);
    perform();
    if (begun.kind === "early") clock.after(begun.retry_in_s * 1000, () => consume(job, round));
    if (begun.kind !== "granted") return;
    const n = Number(job.slice(-12));
    if (!first.has(n)) first.set(n, clock.now);
    clock.after(10_000, () => {
      const report = {
        attempt_id: job,
        ok,
        started_at: clock.now,
        duration_ms: 10_000,
        ...(ok ? { status: 200 } : {}),
      };
      finishDelivery(account, job, round, begun.n, report, clock.now);
      perform();
    });
  };
  const born: number[] = [];
  for (let n = 1; n <= seconds * 8; n++)
    clock.at(NOW + n * 125, () => {
      born[n] = clock.now;
      send(account, n, { webhook_url: "https://hooks.example/a", now: clock.now, key: n % 2 === 0 ? KEY : OTHER_KEY });
      place(account, n, 1, clock.now);
      endExecution(account, jobId(n), 1, BY, completed(), clock.now);
      perform();
    });
  const tick = () => {
    for (const timer of account.store.dueTimers(clock.now, 1_000)) {
      if (timer.kind === "sync") account.store.clearTimer("sync", "");
      if (timer.kind !== "delivery") continue;
      counts.swept++;
      fire(account, timer, clock.now);
    }
    perform();
    clock.after(250, tick);
  };
  tick();
  clock.runUntil(NOW + seconds * 1000);
  const last = Math.max(...first.keys());
  const overtaken = born.filter((_, n) => n < last - 60 && !first.has(n)).length;
  return { ...counts, overtaken, started: first.size };
}

test.each([
  { ok: true, latency_ms: 10 },
  { ok: false, latency_ms: 10 },
  { ok: false, latency_ms: 1_500 },
])(
  "who waits longest goes first, and waiting costs next to nothing: %o",
  (how) => {
    const seconds = 150;
    const { overtaken, started, sent, swept } = play(seconds, how);
    expect(overtaken).toBe(0);
    // 50 places of 10 s and the queue's latency.
    expect(started).toBeGreaterThan(how.ok ? seconds * 4 : 199);
    // One message an end, one for each that is called, and the retries: not one more for every 20 s that each waits.
    expect(sent / seconds).toBeLessThan(8 + 2 * 5 + 6);
    expect(swept / seconds).toBeLessThan(12);
  },
  60_000,
);
