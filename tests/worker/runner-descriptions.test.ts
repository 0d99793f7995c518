import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { DESCRIPTION_LIMITS, EDGE_PATHS, jsonBytes, type RunnerDescription } from "../../schemas/runner-protocol.ts";
import type { RunnerView } from "../../worker/fleet/views.ts";
import { DESCRIPTION, PlayedRunner, playInternet } from "./played-runner.ts";
import { newAccount, operator, submitted } from "./service.ts";

/** What a runner says of itself while it runs: how many seats it has now, what it can do, what it keeps closed. */

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

const CLOSED = [
  { group: "core: writes models", classes: ["ModelSave"], reason: "They write to the disk.", opened_by: "OPEN=core" },
];
const rows = async (pool: string): Promise<RunnerView[]> =>
  (await operator<{ runners: RunnerView[] }>(`/runners?pool=${pool}`)).runners;
const catalogueOf = (pool: string) => env.KEY_CACHE.get<string[]>(`catalogue:${pool}`, "json");

/** As large as a description may be, or larger by so many bytes. */
function largest(more = 0): RunnerDescription {
  const classes = Array.from({ length: 20_000 }, (_, n) => `Class${String(n).padStart(5, "0")}${"x".repeat(60)}`);
  const description = { ...DESCRIPTION, classes };
  // Each name comes with two quotes and, but for the first, a comma.
  const rest = DESCRIPTION_LIMITS.bytes + more - jsonBytes({ ...description, models: [] }) + 1;
  const count = Math.ceil(rest / 258);
  const upTo = (n: number): number => Math.floor((rest * n) / count);
  return { ...description, models: Array.from({ length: count }, (_, n) => "m".repeat(upTo(n + 1) - upTo(n) - 3)) };
}

describe("a runner without seats", () => {
  it("is active and gets nothing, and gets what waits with the beat that has seats again", async () => {
    const pool = "no-seats";
    const runner = await PlayedRunner.ready(pool, 0);
    expect(await rows(pool)).toMatchObject([{ state: "active", seats: 0, max_seats: 8, seats_taken: 0 }]);
    const { api_key } = await newAccount("pro", pool);
    const { job_id } = await submitted(api_key);
    for (let n = 0; n < 3; n++) await runner.beat({ seats: 0 });
    expect(runner.dispatches).toHaveLength(0);
    await runner.beat({ seats: 1 });
    await runner.dispatched(job_id);
    await runner.beat({ seats: 0 });
    expect(await rows(pool)).toMatchObject([{ state: "active", seats: 0, seats_taken: 1 }]);
    expect(await operator(`/fleet?pool=${pool}`)).toMatchObject({ seats: 0, seats_taken: 1, runners: { active: 1 } });
  });
});

describe("a description", () => {
  it("that comes with a later beat is published, and closed classes never are", async () => {
    const pool = "described-anew";
    const runner = await PlayedRunner.ready(pool);
    await vi.waitFor(async () => expect(await catalogueOf(pool)).toEqual(["EmptyImage", "SaveImage"]));
    await runner.beat({ describe: { ...DESCRIPTION, classes: ["EmptyImage", "Later", "SaveImage"], closed: CLOSED } });
    await vi.waitFor(async () => expect(await catalogueOf(pool)).toEqual(["EmptyImage", "Later", "SaveImage"]));
    expect(await rows(pool)).toMatchObject([{ classes: 3, closed_classes: 1 }]);
    // However fast it changes, the last word stands.
    const words = ["A", "B", "C", "D"].map((name) => ({ ...DESCRIPTION, classes: [name] }));
    for (const describe of words) await runner.beat({ describe });
    await vi.waitFor(async () => expect(await catalogueOf(pool)).toEqual(["D"]));
  });

  it("is stored with its closed classes, and known to the next life of the fleet object", async () => {
    const pool = "described-stored";
    const runner = await PlayedRunner.ready(pool);
    await runner.beat({ describe: { ...DESCRIPTION, closed: CLOSED } });
    const fleet = env.FLEET.getByName(pool);
    await evictDurableObject(fleet);
    expect(await fleet.runner(runner.runner_id)).toMatchObject({ version: "1", closed: CLOSED, closed_classes: 1 });
    expect(await runner.beat()).toMatchObject({ describe: false });
  });

  it("may be as large as the bound says, and no larger", async () => {
    const pool = "described-large";
    const runner = await PlayedRunner.ready(pool);
    expect(jsonBytes(largest())).toBe(DESCRIPTION_LIMITS.bytes);
    expect(await runner.beat({ describe: largest() })).toMatchObject({ describe: false });
    const stored = await runInDurableObject(env.FLEET.getByName(pool), (_, state) =>
      state.storage.sql.exec("SELECT length(body) AS length FROM lists").toArray(),
    );
    expect(stored).toEqual([{ length: DESCRIPTION_LIMITS.bytes }]);
    const refused = async (describe: unknown) => {
      const body = runner.beatBody({ describe });
      return (await runner.signed(EDGE_PATHS.heartbeat, body, runner.credential)).status;
    };
    expect(await refused(largest(1))).toBe(400);
    const [group] = CLOSED;
    expect(await refused({ ...DESCRIPTION, closed: Array.from({ length: 301 }, () => group) })).toBe(400);
    const many = { ...group, classes: Array.from({ length: 2_000 }, (_, n) => `Class${n}`) };
    expect(await refused({ ...DESCRIPTION, closed: Array.from({ length: 11 }, () => many) })).toBe(400);
    expect(await refused({ ...DESCRIPTION, closed: [{ ...group, classes: [...many.classes, "One"] }] })).toBe(400);
    expect(await rows(pool)).toMatchObject([{ classes: 20_000, state: "active" }]);
  });
});
