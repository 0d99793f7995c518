import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it, vi } from "vitest";
import { EDGE_PATHS, type Enrolled } from "../../schemas/runner-protocol.ts";
import { DESCRIPTION, newKey, newToken, PlayedRunner, playInternet } from "./played-runner.ts";
import { call, operator } from "./service.ts";

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

const codeOf = async (response: Response): Promise<string> =>
  ((await response.json()) as { error: { code: string } }).error.code;

interface RunnerRow {
  readonly runner_id: string;
  readonly url: string;
  readonly state: string;
  readonly boot: number;
  readonly seats: number;
}

const roster = async (pool: string): Promise<RunnerRow[]> =>
  (await operator<{ runners: RunnerRow[] }>(`/runners?pool=${pool}`)).runners;

it("enrols a runner that proves its key at its URL, and tells the operator of it", async () => {
  const runner = await PlayedRunner.make("enrol");
  const { token } = await newToken("enrol", 3);
  const response = await runner.enrol(token);
  expect(response.status).toBe(200);
  const enrolled = (await response.json()) as Enrolled;
  expect(enrolled).toMatchObject({
    pool: "enrol",
    max_seats: 3,
    runner_id: expect.stringMatching(/^rnr_[0-9a-z]{20}$/),
  });
  expect(await roster("enrol")).toMatchObject([
    { runner_id: enrolled.runner_id, url: runner.url, state: "active", boot: 0, last_heartbeat_at: null },
  ]);
});

it("spends a token once: the same key may repeat the call, another may not", async () => {
  const runner = await PlayedRunner.make("spent");
  const { token } = await newToken("spent");
  const first = (await (await runner.enrol(token)).json()) as Enrolled;
  const repeated = await runner.enrol(token);
  expect(repeated.status).toBe(200);
  expect(((await repeated.json()) as Enrolled).runner_id).toBe(first.runner_id);
  const thief = await PlayedRunner.make("spent");
  const refused = await thief.enrol(token);
  expect(refused.status).toBe(403);
  expect(await codeOf(refused)).toBe("invalid_token");
  expect(await roster("spent")).toHaveLength(1);
});

it("lets only one of two keys that race for a token in", async () => {
  const { token } = await newToken("race");
  const racers = await Promise.all([PlayedRunner.make("race"), PlayedRunner.make("race")]);
  const responses = await Promise.all(racers.map((racer) => racer.enrol(token)));
  expect(responses.map(({ status }) => status).sort()).toEqual([200, 403]);
  expect(await roster("race")).toHaveLength(1);
});

it("refuses wrong, foreign and expired tokens before it calls anybody", async () => {
  const runner = await PlayedRunner.make("tokens");
  const { token } = await newToken("tokens");
  runner.onProof = vi.fn(runner.onProof);
  const wrong = [
    "x",
    "",
    token.slice(0, -1),
    `${token.slice(0, -1)}${token.endsWith("A") ? "B" : "A"}`,
    token.replace("tokens", "default"),
  ];
  for (const one of wrong) {
    const refused = await runner.enrol(one);
    expect(refused.status).toBe(403);
    expect(await codeOf(refused)).toBe("invalid_token");
  }
  await runInDurableObject(env.FLEET.getByName("tokens"), (_, state) => {
    state.storage.sql.exec("UPDATE tokens SET expires_at = ?", Date.now() - 1);
  });
  expect((await runner.enrol(token)).status).toBe(403);
  expect(runner.onProof).not.toHaveBeenCalled();
});

it("keeps no enrolment token, only its digest", async () => {
  const { token } = await newToken("hashed");
  const rows = await runInDurableObject(env.FLEET.getByName("hashed"), (_, state) =>
    JSON.stringify(state.storage.sql.exec("SELECT * FROM tokens").toArray()),
  );
  expect(rows).toContain("token_hash");
  expect(rows).not.toContain(token.slice(-43));
});

it("refuses a URL where no public https server can be", async () => {
  const urls = [
    "http://runner.example.org",
    "https://127.0.0.1:9000",
    "https://localhost:9000",
    "https://10.0.0.7",
    "https://[fd00::1]",
    "https://gpu",
    "https://user@runner.example.org",
  ];
  const { token } = await newToken("urls");
  for (const url of urls) {
    const runner = await PlayedRunner.make("urls", url);
    const refused = await runner.enrol(token);
    expect(refused.status).toBe(400);
    expect(await codeOf(refused)).toBe("invalid_url");
  }
  expect(await roster("urls")).toEqual([]);
});

it("enrols nobody who does not prove the key at the URL, and leaves the token good", async () => {
  const runner = await PlayedRunner.make("unproven");
  const { token } = await newToken("unproven");
  const other = await newKey();
  const answers: ((nonce: string) => Promise<Response>)[] = [
    async () => new Response("no", { status: 404 }),
    async () => Response.json({ proof: "x.y.z" }),
    async () => new Response("not json"),
    () => runner.prove("another nonce altogether"),
    (nonce) => runner.prove(nonce, other),
    async () => Promise.reject(new TypeError("connection refused")),
    async () => new Response(null, { status: 302, headers: { location: "https://elsewhere.example.org" } }),
  ];
  for (const answer of answers) {
    runner.onProof = answer;
    const refused = await runner.enrol(token);
    expect(refused.status).toBe(400);
    expect(await codeOf(refused)).toBe("unreachable");
  }
  expect(await roster("unproven")).toEqual([]);
  runner.onProof = (nonce) => runner.prove(nonce);
  expect((await runner.enrol(token)).status).toBe(200);
});

it("refuses an enrolment whose proof is by another key than the one that is enrolled", async () => {
  const runner = await PlayedRunner.make("mixed");
  const { token } = await newToken("mixed");
  const other = await newKey();
  expect((await runner.enrol(token, { public_jwk: other.jwk })).status).toBe(401);
  const body = JSON.stringify({ token, name: "x", public_jwk: runner.key.jwk, url: runner.url });
  expect((await call(EDGE_PATHS.enrol, { method: "POST", body })).status).toBe(401);
});

it("hands out rising boot numbers, also after the fleet object lost its memory", async () => {
  const runner = await PlayedRunner.ready("boots");
  expect(runner.boot).toBe(1);
  await runner.start();
  expect(runner.boot).toBe(2);
  const stale = await runner.beat({ beat: { boot: 1, n: 99 } });
  expect(stale.boot).toBe(2);
  await evictDurableObject(env.FLEET.getByName("boots"));
  await runner.start();
  expect(runner.boot).toBe(3);
  expect(await roster("boots")).toMatchObject([{ boot: 3, state: "active" }]);
});

it("asks for a description that it lacks, and offers no more seats than the token allows", async () => {
  const runner = await PlayedRunner.make("describe");
  const { token } = await newToken("describe", 2);
  runner.take((await (await runner.enrol(token)).json()) as Enrolled);
  expect(await runner.beat({ beat: undefined })).toMatchObject({ boot: 1, describe: true, stop: [] });
  runner.boot = 1;
  expect(await runner.beat({ describe: DESCRIPTION, seats: 64 })).toMatchObject({ describe: false });
  expect(await roster("describe")).toMatchObject([{ seats: 2, classes: 2, engine: { name: "played" } }]);
});

it("refuses a revoked runner with 403, and what it has not with 404", async () => {
  const runner = await PlayedRunner.ready("revoked");
  await operator(`/runners/${runner.runner_id}/revoke?pool=revoked`, {});
  const refused = await runner.signed(EDGE_PATHS.heartbeat, runner.beatBody(), runner.credential);
  expect(refused.status).toBe(403);
  expect(await codeOf(refused)).toBe("revoked");
  expect(await roster("revoked")).toMatchObject([{ state: "revoked" }]);
  await expect(operator("/runners/rnr_00000000000000000000/revoke?pool=revoked", {})).rejects.toThrow("404");
});

it("carries no rate headers on what runners call", async () => {
  const runner = await PlayedRunner.ready("quiet");
  const beat = await runner.signed(EDGE_PATHS.heartbeat, runner.beatBody(), runner.credential);
  expect(beat.status).toBe(200);
  expect(beat.headers.get("x-ratelimit-limit")).toBeNull();
});
