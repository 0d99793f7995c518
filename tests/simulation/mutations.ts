/** A rule of design sections 4 to 6, and the text whose replacement takes it out of the product. */
export interface Mutation {
  readonly name: string;
  readonly rule: string;
  readonly file: string;
  /** Is found exactly once. */
  readonly find: string;
  readonly put: string;
}

export const MUTATIONS: readonly Mutation[] = [
  {
    name: "end-fence",
    rule: "an end report counts only with the current fence",
    file: "worker/account/job-end.ts",
    find: `if (fence !== job.fence) return { answer: "fenced" };`,
    put: "",
  },
  {
    name: "late-result",
    rule: "a lost attempt's fence stays current until the next placement: its result counts",
    file: "worker/account/job-end.ts",
    find: `if (report.outcome === "completed") return done(`,
    put: `if (!current) return { answer: "gone" };\n  if (report.outcome === "completed") return done(`,
  },
  {
    name: "ready-only",
    rule: "only a ready row takes a placement",
    file: "worker/account/job-placement.ts",
    find: `if (job.phase !== "ready" || fence !== job.fence + 1) return undefined;\n  return {\n    ...without`,
    put: `if (job.phase === "ended" || fence !== job.fence + 1) return undefined;\n  return {\n    ...without`,
  },
  {
    name: "same-runner",
    rule: "a dispatch of unknown outcome is repeated to the same runner, with the same fence",
    file: "worker/account/job-placement.ts",
    find: `phase: "placed",\n    fence,`,
    put: `phase: "placed",\n    fence: Math.max(1, job.fence),`,
  },
  {
    name: "repeat",
    rule: "the dispatch of a row that is still placed is posted again after a start of the object or an unknown outcome",
    file: "worker/account/executions.ts",
    find: "return now < job.placement.at + DISPATCH_REPEAT_MS ? job : undefined;",
    put: "return now < job.placement.at + 1_000 ? job : undefined;",
  },
  {
    name: "promotion",
    rule: "every transaction that frees a slot promotes the key's next job",
    file: "worker/account/account.ts",
    find: "this.settleKey(job.key_hash, now);",
    put: "",
  },
  {
    name: "sync-timer",
    rule: "any open job keeps a sync due",
    file: "worker/account/timers.ts",
    find: "links.forgetDue(settings, now);\n  account.keepSyncing(now, links.nextLookIn(settings, now));",
    put: "links.forgetDue(settings, now);",
  },
  {
    name: "unused",
    rule: "a placement that comes too late is given back",
    file: "worker/account/executions.ts",
    find: `links.freed(pool, { job: job_id, fence, runner, outcome: "unused" });`,
    put: "void 0;",
  },
  {
    name: "stale-outputs",
    rule: "what a losing fence stored is removed",
    file: "worker/account/outbox.ts",
    find: "const removals: Removal[] = job.stale.map(",
    put: "const removals: Removal[] = job.stale.slice(1).map(",
  },
  {
    name: "begin-once",
    rule: "an attempt of a delivery is granted once",
    file: "worker/account/deliveries.ts",
    find: "delivery.round !== round || delivery.claimed_until !== undefined)\n    return { kind",
    put: "delivery.round !== round)\n    return { kind",
  },
  {
    name: "delivery-timer",
    rule: "a delivery's timer lives as long as its round",
    file: "worker/account/notifications.ts",
    find: `store.setTimer("delivery", job_id, Math.max(now, again.due_at) + SWEEP_MS);`,
    put: `store.clearTimer("delivery", job_id);`,
  },
  {
    name: "start-grace",
    rule: "a fleet that has just started judges no runner that it has not heard",
    file: "worker/fleet/losses.ts",
    find: "return Math.max(watch.grace_until, watch.started_at + FIRST_BEAT_MS);",
    put: "return watch.started_at;",
  },
  {
    name: "outage",
    rule: "when many fall silent together, losses wait",
    file: "worker/fleet/losses.ts",
    find: "const outage = silent.length >= OUTAGE_LEAST",
    put: "const outage = silent.length > judged.length",
  },
  {
    name: "freed-memory",
    rule: "a beat's word of what was freed within 30 s is old",
    file: "worker/fleet/beats.ts",
    find: "if (state.freed.has(name)) continue;",
    put: "",
  },
  {
    name: "dropped-seat",
    rule: "a dropped execution keeps its seat until its runner says that it is gone",
    file: "worker/fleet/conversation.ts",
    find: "seat.dropped = true;",
    put: "state.unseat(seat, 0, 0);",
  },
  {
    name: "two-beats",
    rule: "an undecided dispatch that two beats leave out was never accepted",
    file: "worker/fleet/beats.ts",
    find: "++seat.unlisted >= UNLISTED_BEATS;",
    put: "++seat.unlisted >= 1_000;",
  },
  {
    name: "drain",
    rule: "draining runners get nothing new",
    file: "worker/fleet/runner-state.ts",
    find: "runner.beat !== undefined && !runner.draining;",
    put: "runner.beat !== undefined;",
  },
  {
    name: "boot",
    rule: "a dispatch for another boot is refused",
    file: "gpu-runner/table.ts",
    find: `if (table.boot === undefined || order.boot !== table.boot)`,
    put: `if (table.boot === undefined)`,
  },
  {
    name: "current-seats",
    rule: "a runner takes no more than its engine has seats now",
    file: "gpu-runner/table.ts",
    find: "seated >= table.seats ||",
    put: "seated >= table.most_seats ||",
  },
  {
    name: "heard-seats",
    rule: "each beat says how many seats a runner offers",
    file: "worker/fleet/beats.ts",
    find: "runner.seats = message.seats;",
    put: "runner.seats = Math.max(runner.seats, message.seats);",
  },
  {
    name: "stop-memory",
    rule: "a runner remembers a stop that overtook its dispatch",
    file: "gpu-runner/table.ts",
    find: ": { ...table, gone: remember(table.gone, key, now) };\n}",
    put: ": table;\n}",
  },
  {
    name: "end-memory",
    rule: "a runner remembers what has ended",
    file: "gpu-runner/table.ts",
    find: "held: without(table.held, key), gone: remember(table.gone, key, now) };",
    put: "held: without(table.held, key) };",
  },
  {
    name: "listed-until-acknowledged",
    rule: "a beat lists an execution until its end report was acknowledged",
    file: "gpu-runner/table.ts",
    find: "const held = [...table.held.values()].map((row) => ({",
    put: "const held = [...table.held.values()].filter((row) => row.seated).map((row) => ({",
  },
];
