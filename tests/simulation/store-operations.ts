import type { Job, Phase } from "../../worker/account/jobs.ts";
import type { AccountStore, TimerKind } from "../../worker/account/store.ts";
import type { Random } from "../fuzz/random.ts";

/** Random changes of an account's store, and everything that a store can be asked. */

const JOBS = ["a", "b", "c", "d", "e", "f"] as const;
const KEYS = ["one", "two"] as const;
const PHASES = ["waiting", "ready", "placed", "running", "ended"] as const satisfies readonly Phase[];
const KINDS = ["job", "delivery", "removal", "sync"] as const satisfies readonly TimerKind[];
const STATUSES = ["queued", "running", "completed"] as const;
const DELIVERIES = ["pending", "delivered", "failed"] as const;

const someJob = (random: Random): Job => {
  const phase = random.pick(PHASES);
  return {
    job_id: random.pick(JOBS),
    key_hash: random.pick(KEYS),
    phase,
    created_at: 1,
    priority: random.int(-1, 1),
    timeout_s: 1,
    queue_timeout_s: 1,
    queue_until: 1,
    needs: { classes: [], models: [] },
    prompt_in: "row",
    fence: random.int(0, 3),
    ever_started: random.chance(0.5),
    losses: 0,
    handbacks: 0,
    retries: {},
    avoid: [],
    exclude: [],
    stale: [],
    ...(phase === "ended"
      ? {
          end: {
            status: "completed",
            at: 1,
            timing: { queue_ms: 0, download_ms: 0, execution_ms: 0, upload_ms: 0 },
            retention: "d1",
            expires_at: 1,
          },
        }
      : {}),
  };
};

type Change = (store: AccountStore) => void;

/** One change, the same for every store that it is made to. A put keeps what an insertion has fixed. */
export function change(random: Random): Change {
  const job = someJob(random);
  const id = random.pick(JOBS);
  const key = random.pick(KEYS);
  const kind = random.pick(KINDS);
  const at = random.int(1, 20);
  const status = random.pick(DELIVERIES);
  const file = { filename: "f", content_type: "image/png", size_bytes: 1, sha256: "0", kind: "image", node_id: "1" };
  const changes: Change[] = [
    (store) =>
      void store.insertJob({ ...job, ever_started: false, created_at: Math.max(at, store.lastCreatedAt()) }, "{}"),
    (store) => {
      const before = store.job(job.job_id)?.job;
      const { key_hash = "", created_at = 0, priority = 0 } = before ?? {};
      store.putJob({ ...job, key_hash, created_at, priority });
    },
    (store) => store.deleteJob(id),
    (store) => store.deletePrompt(id),
    (store) => store.putFiles(id, [file as never]),
    (store) =>
      store.putSettings({ account_id: "a", tier: "free", suspended: false, pool: "p", webhook_secret: String(at) }),
    (store) =>
      store.putKey({ key_hash: key, prefix: key, name: "n", created_at: at, window: { opened_at: 0, used: at } }),
    (store) => store.putWindow(key, { opened_at: at, used: 1 }, at),
    (store) =>
      store.putIdempotency({ idempotency_key: key, body_sha256: "x", job_id: id, status: 202, created_at: at }),
    (store) => store.answeredAtOnce(id),
    (store) => store.forgetIdempotency(at, 10),
    (store) =>
      store.putDelivery({
        job_id: id,
        round: 1,
        status,
        n: 1,
        due_at: at,
        ...(at % 2 === 0 ? { claimed_until: at + 5 } : {}),
        ...(at % 3 === 0 ? { deferred: true } : {}),
      }),
    (store) => store.logAttempt(id, { round: 1 + (at % 3), n: at % 4, at, ok: false, duration_ms: at }),
    (store) => store.forgetAttempts(id, at % 3),
    (store) => store.addEvent(id),
    (store) => store.putAccountWindow("redeliveries", { opened_at: at, used: 2 }),
    (store) => store.owner.addUsage(at, key, { requests: 1, jobs: at % 2, gpu_ms: at * 10 }),
    (store) => store.owner.addUsage(at, key, { gpu_ms: 3 }),
    (store) => store.owner.forgetUsage(at - 10, 2),
    (store) => store.setTimer(kind, id, at),
    (store) => store.clearTimer(kind, id),
    (store) => {
      const timer = store.dueTimers(at, 1)[0];
      if (timer) store.postponeTimer(timer, at + 3);
    },
  ];
  const chosen = changes[random.int(0, changes.length - 1)];
  return chosen ?? (() => {});
}

/** Every question, answered. */
export function look(store: AccountStore): unknown {
  const filters = [
    {},
    { before: 3 },
    { created_after: 5 },
    { created_before: 12 },
    ...STATUSES.map((status) => ({ status })),
    { status: "queued" as const, created_after: 4, created_before: 15, before: 9 },
    ...KEYS.map((key_hash) => ({ key_hash })),
    ...STATUSES.map((status) => ({ key_hash: "one", status })),
    { key_hash: "two", created_after: 4, created_before: 15, before: 9 },
  ];
  return {
    settings: store.settings(),
    keys: store.keys(),
    key: KEYS.map((key) => store.key(key)),
    jobs: JOBS.map((id) => [store.job(id), store.prompt(id), store.files(id), store.delivery(id)]),
    use: KEYS.map((key) => [store.use(key), store.firstWaiting(key), store.weakestReady(key), store.idempotency(key)]),
    phases: PHASES.map((phase) => store.inPhases([phase], 3)),
    open: store.inPhases(["ready", "placed", "running"], 100),
    next: [1, 3, 100].map((limit) => store.nextReady(limit)),
    before: JOBS.map((id) => {
      const stored = store.job(id);
      return stored && store.waitingBefore(stored);
    }),
    pages: filters.map((filter) => store.page(filter, 4)),
    ends: [store.lastCreatedAt(), store.span(), store.oldestEnded(2)],
    deliveries: [3, 9, 30].map((now) => store.deliveriesInFlight(now)),
    deferred: store.firstDeferred(),
    attempts: JOBS.map((id) => [store.attempts(id), store.eventOf(id)]),
    events: [0, 2, 5].map((after) => store.events(after, 3)),
    window: store.window("redeliveries"),
    open_jobs: store.owner.openJobs().sort((a, b) => (a.key_hash + a.phase < b.key_hash + b.phase ? -1 : 1)),
    delivery_pages: [{}, { before: 3 }, ...DELIVERIES.flatMap((state) => [{ state }, { state, before: 4 }])].map(
      (filter) => store.owner.deliveries(filter, 2),
    ),
    failed: [store.owner.oldestFailed(2), store.owner.countFailed(8, 100), store.owner.countFailed(0, 2)],
    last_attempts: JOBS.map((id) => store.owner.lastAttempt(id)),
    usage: [store.owner.usage(0, 100), store.owner.usage(5, 12)],
    timers: [5, 12, 40].map((now) => store.dueTimers(now, 4)),
    earliest: store.earliestTimer(),
    due: KINDS.map((kind) => JOBS.map((id) => store.timerDueAt(kind, id))),
  };
}
