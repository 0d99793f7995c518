import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { EDGE_PATHS, type Enrolled } from "../../schemas/runner-protocol.ts";
import { newToken, output, PlayedRunner, playInternet } from "./played-runner.ts";
import { newAccount, operator, readJob, submitted } from "./service.ts";

/** What a revocation ends, and how a runner comes back from one (design section 7). */

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

interface RunnerRow {
  readonly runner_id: string;
  readonly state: string;
  readonly boot: number;
  readonly seats: number;
  readonly url: string;
}

const revoke = ({ runner_id, pool }: PlayedRunner) => operator(`/runners/${runner_id}/revoke?pool=${pool}`, {});
const roster = async (pool: string): Promise<RunnerRow[]> =>
  (await operator<{ runners: RunnerRow[] }>(`/runners?pool=${pool}`)).runners;
const beatStatus = async (runner: PlayedRunner, credential: string): Promise<number> =>
  (await runner.signed(EDGE_PATHS.heartbeat, runner.beatBody(), credential)).status;

describe("a revoked runner", () => {
  it("is refused at its next beat, with a word that it understands", async () => {
    const runner = await PlayedRunner.ready("revoked-beat");
    await revoke(runner);
    const refused = await runner.signed(EDGE_PATHS.heartbeat, runner.beatBody(), runner.credential);
    expect(refused.status).toBe(403);
    expect(await refused.json()).toMatchObject({ error: { code: "revoked" } });
    expect(await roster("revoked-beat")).toMatchObject([{ state: "revoked" }]);
  });

  it("changes nothing with the lease that it still has, though nobody took its job over", async () => {
    const pool = "revoked-lease";
    const runner = await PlayedRunner.ready(pool);
    const { api_key, account_id } = await newAccount("pro", pool);
    const { job_id } = await submitted(api_key);
    const dispatch = await runner.dispatched(job_id);
    await vi.waitFor(async () => expect((await readJob(api_key, job_id)).status).toBe("running"));
    await revoke(runner);
    const queued = await vi.waitFor(async () => {
      const job = await readJob(api_key, job_id);
      expect(job.status).toBe("queued");
      return job;
    });
    const { bytes, description } = await output("late");
    await runner.progress(dispatch, 0.9);
    const upload = await runner.upload(dispatch, 0, bytes, description);
    const end = await runner.end(dispatch, { outcome: "completed", outputs: [description] });
    expect(upload.status).toBe(409);
    expect([200, 409, 410]).toContain(end.status);
    expect(await readJob(api_key, job_id)).toEqual(queued);
    expect((await env.STORE.list({ prefix: `o/d7/${account_id}/` })).objects).toEqual([]);

    const other = await PlayedRunner.ready(pool);
    const second = await other.dispatched(job_id, 2);
    expect((await other.end(second, { outcome: "completed", outputs: [] })).status).toBe(200);
    expect(await readJob(api_key, job_id)).toMatchObject({ status: "completed", attempt: 2 });
  });

  it("does not come back with the token that it has spent", async () => {
    const runner = await PlayedRunner.make("revoked-token");
    const { token } = await newToken("revoked-token");
    runner.take((await (await runner.enrol(token)).json()) as Enrolled);
    await revoke(runner);
    const again = await runner.enrol(token);
    expect(again.status).toBe(403);
    expect(await again.json()).toMatchObject({ error: { code: "invalid_token" } });
    expect(await roster("revoked-token")).toMatchObject([{ state: "revoked" }]);
  });

  it("comes back with a new token as another runner: what was signed for the old one stays worthless", async () => {
    const pool = "revoked-returns";
    const runner = await PlayedRunner.ready(pool);
    const { runner_id: before, credential: revoked } = runner;
    await revoke(runner);
    const { token } = await newToken(pool, 1);
    runner.take((await (await runner.enrol(token)).json()) as Enrolled);
    expect(runner.runner_id).not.toBe(before);
    expect(await beatStatus(runner, revoked)).toBe(403);
    await runner.start(4);
    expect(runner.boot).toBe(2);
    const rows = (await roster(pool)).map(({ runner_id, state, seats }) => ({ runner_id, state, seats }));
    expect(rows).toHaveLength(2);
    expect(rows).toContainEqual(expect.objectContaining({ runner_id: before, state: "revoked" }));
    expect(rows).toContainEqual({ runner_id: runner.runner_id, state: "active", seats: 1 });
    const { api_key } = await newAccount("pro", pool);
    const { order } = await runner.dispatched((await submitted(api_key)).job_id);
    expect(order.fence).toBe(1);
  });
});

describe("an enrolled runner with a new token", () => {
  it("stays who it is, and moves to the URL and the seats of its new enrolment", async () => {
    const pool = "moved";
    const runner = await PlayedRunner.ready(pool, 4);
    const moved = await PlayedRunner.make(pool);
    Object.assign(moved, { key: runner.key });
    const enrolled = (await (await moved.enrol((await newToken(pool, 3)).token)).json()) as Enrolled;
    expect(enrolled).toMatchObject({ runner_id: runner.runner_id, max_seats: 3 });
    await runner.beat({ seats: 4 });
    expect(await roster(pool)).toMatchObject([{ runner_id: runner.runner_id, url: moved.url, seats: 3 }]);
  });

  it("stays at its old URL when it does not prove the new one", async () => {
    const pool = "not-moved";
    const runner = await PlayedRunner.ready(pool);
    const moved = await PlayedRunner.make(pool);
    Object.assign(moved, { key: runner.key });
    moved.onProof = (nonce) => runner.prove(nonce);
    const refused = await moved.enrol((await newToken(pool)).token);
    expect(refused.status).toBe(400);
    expect(await roster(pool)).toMatchObject([{ runner_id: runner.runner_id, url: runner.url }]);
  });
});
