import { openSql, type TestSql } from "../account/sqlite.ts";
import type { Tier } from "../../schemas/limits.ts";
import type { Heartbeat } from "../../schemas/runner-protocol.ts";
import { START_GRACE_MS } from "../../worker/fleet/losses.ts";
import { Pool } from "../../worker/fleet/pool.ts";
import { type RosterEntry, RosterRows } from "../../worker/fleet/roster.ts";
import type { ExecutionRef, FleetNews, Freed, Hold, SyncAnswer, SyncRequest, Ticket } from "../../worker/fleet/sync.ts";

/** A pool to test, and the words that runners and accounts say to it. */

export const NOW = Date.UTC(2026, 0, 15, 12);

export const entryOf = (name: string, part: Partial<RosterEntry> = {}): RosterEntry => ({
  runner_id: name,
  name,
  url: `https://${name}.example`,
  public_jwk: { kty: "OKP", crv: "Ed25519", x: name },
  jkt: `jkt-${name}`,
  max_seats: 8,
  state: "active",
  boot: 0,
  enrolled_at: NOW,
  ...part,
});

export const describe = (classes: readonly string[] = ["SaveImage"]): NonNullable<Heartbeat["describe"]> => ({
  version: "1",
  engine: { name: "embedded", version: "1" },
  classes: [...classes],
  models: [],
});

/** A runner as the pool hears it: it numbers its beats and lists what it holds. */
export class Voice {
  readonly name: string;
  seats = 2;
  classes = ["SaveImage"];
  boot: number | undefined;
  n = 0;
  lives = 1;
  draining = false;
  held: { account: string; job: string; fence: number; running_ms: number }[] = [];

  constructor(name: string, part: Partial<Pick<Voice, "seats" | "classes">> = {}) {
    this.name = name;
    Object.assign(this, part);
  }

  /** The next beat, unsent. The first of a process has no number. */
  next(): Heartbeat {
    const process = `${this.name}-process-${this.lives}`;
    const said = { process, seats: this.seats, draining: this.draining, held: [...this.held] };
    if (this.boot === undefined) return { ...said, held: [], describe: describe(this.classes) };
    this.n++;
    return { ...said, beat: { boot: this.boot, n: this.n } };
  }

  beat(pool: Pool, now: number) {
    const answer = pool.beat(this.name, `jkt-${this.name}`, this.next(), now);
    if (answer) this.boot = Math.max(this.boot ?? 0, answer.boot);
    return answer;
  }

  /** Its process died and starts again with nothing. */
  dies(): void {
    this.lives++;
    this.boot = undefined;
    this.n = 0;
    this.held = [];
  }

  takes(account: string, ref: ExecutionRef): void {
    this.held.push({ account, ...ref, running_ms: 0 });
  }
}

export interface Opened {
  readonly pool: Pool;
  readonly sql: TestSql;
}

/** A pool out of its grace, with runners that have been heard. */
export function openPool(voices: readonly Voice[] = [], part: Partial<RosterEntry> = {}): Opened {
  const sql = openSql();
  const pool = new Pool(new RosterRows(sql), { started_at: NOW - START_GRACE_MS, grace_until: NOW });
  for (const voice of voices) {
    pool.enrol(entryOf(voice.name, part));
    voice.beat(pool, NOW);
  }
  return { pool, sql };
}

export const ticket = (job: string, part: Partial<Ticket> = {}): Ticket => ({
  job,
  fence: 1,
  needs: { classes: ["SaveImage"], models: [] },
  avoid: [],
  exclude: [],
  key: "key",
  priority: 0,
  created_at: NOW,
  ...part,
});

export const request = (account: string, part: Partial<SyncRequest> & { tier?: Tier } = {}): SyncRequest => ({
  account,
  tier: "free",
  full: false,
  want: [],
  drop: [],
  freed: [],
  hold: [],
  ...part,
});

export const sync = (pool: Pool, account: string, part: Partial<SyncRequest>, now: number): SyncAnswer =>
  pool.sync(request(account, part), now);

export const freed = (job: string, runner: string, outcome: Freed["outcome"] = "ended", fence = 1): Freed => ({
  job,
  fence,
  runner,
  outcome,
});

/** What an account believes to be on that runner; accepted at the runner's latest beat unless said otherwise. */
export const hold = (job: string, { name, boot = 0, n }: Voice, part: Partial<Hold> = {}): Hold => ({
  job,
  fence: 1,
  runner: name,
  boot,
  kind: "accepted",
  placed_at: NOW,
  ...(part.kind === undefined ? { beat: { boot, n } } : {}),
  ...part,
});

export const placedIn = (said: FleetNews | undefined): string[] => (said?.placed ?? []).map(({ job }) => job);
export const verdictsIn = (said: FleetNews | undefined): string[] =>
  (said?.verdicts ?? []).map(({ job, fence, verdict }) => `${job}.${fence} ${verdict}`);
