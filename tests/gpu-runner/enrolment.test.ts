import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Edge, EdgeAnswer } from "../../gpu-runner/edge.ts";
import { ensureEnrolled } from "../../gpu-runner/enrol.ts";
import { openIdentity } from "../../gpu-runner/identity.ts";
import { createLog } from "../../gpu-runner/log.ts";
import type { Enrolled } from "../../schemas/runner-protocol.ts";
import { aFolder } from "./harness.ts";

/** When a runner enrols, and what of it stays on its disk. */

const tokenOf = (letter: string): string => `dre_default_${letter.repeat(43)}`;
const SPENT = tokenOf("a");
const FRESH = tokenOf("b");
const LOST: EdgeAnswer<Enrolled> = { ok: false, message: "connection reset" };
const REFUSED: EdgeAnswer<Enrolled> = { ok: false, status: 403, code: "invalid_token", message: "unknown or spent" };

/** A runner's disk, and an edge that enrols whoever comes as somebody new. */
async function aMachine() {
  const folder = await aFolder();
  const asked: Parameters<Edge["enrol"]>[0][] = [];
  const answers: EdgeAnswer<Enrolled>[] = [];
  const enrol: Edge["enrol"] = async (enrolment) => {
    asked.push(enrolment);
    const runner_id = `rnr_${String(asked.length).padStart(20, "0")}`;
    const answer = { runner_id, pool: "default", max_seats: 2, credential: `credential.of.${asked.length}` };
    return answers.shift() ?? { ok: true, answer };
  };
  /** One start of the process, as far as the enrolment. */
  const start = async (token?: string, anew = false) => {
    const identity = await openIdentity(folder);
    const config = { edge: "https://edge.example", url: "https://gpu.example", name: "gpu" };
    return ensureEnrolled({
      config: token === undefined ? config : { ...config, token },
      identity,
      edge: { enrol },
      log: createLog(() => {}),
      retry_ms: 1,
      signal: new AbortController().signal,
      anew,
    });
  };
  return { folder, asked, answers, start };
}

test("a runner enrols once: later starts ask nothing, with a token or without one", async () => {
  const { asked, start } = await aMachine();
  const first = await start(SPENT);
  expect(await start()).toEqual(first);
  expect(await start(SPENT)).toEqual(first);
  expect(asked).toHaveLength(1);
});

test("a runner whose enrolment is good for nothing any more enrols anew with the key that it has", async () => {
  const { asked, start } = await aMachine();
  const before = await start(SPENT);
  const after = await start(FRESH, true);
  expect(after.runner_id).not.toBe(before.runner_id);
  expect(asked.map(({ token }) => token)).toEqual([SPENT, FRESH]);
  expect(asked[1]?.public_jwk).toEqual(asked[0]?.public_jwk);
  expect(await start()).toEqual(after);
  await expect(start(undefined, true)).rejects.toThrow(/pass a one-time token/);
});

test("a token that is refused ends the start, is not named, and leaves the old enrolment", async () => {
  const { answers, start } = await aMachine();
  const before = await start(SPENT);
  answers.push(REFUSED);
  const refused = await start(FRESH, true).catch((error: unknown) => String(error));
  expect(refused).toContain("refused the enrolment (403)");
  expect(refused).not.toContain("bbb");
  expect(await start()).toEqual(before);
});

test("an answer that was lost is asked for again, with the same token and key", async () => {
  const { asked, answers, start } = await aMachine();
  answers.push(LOST, LOST);
  expect((await start(SPENT)).runner_id).toMatch(/3$/);
  expect(new Set(asked.map((enrolment) => JSON.stringify(enrolment))).size).toBe(1);
});

test("without an enrolment and without a token there is no start", async () => {
  const { asked, start } = await aMachine();
  await expect(start()).rejects.toThrow(/pass a one-time token/);
  expect(asked).toEqual([]);
});

test("the disk holds one file for its owner only, after every write, and in it no token", async () => {
  const { folder, start } = await aMachine();
  const path = join(folder, "identity.json");
  for (const token of [SPENT, FRESH]) {
    await start(token, token === FRESH);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readdir(folder)).toEqual(["identity.json"]);
    expect(await readFile(path, "utf8")).not.toContain(token.slice(-43));
  }
  const identity = await openIdentity(folder);
  const enrolment = identity.enrolment("https://edge.example", "https://gpu.example");
  if (!enrolment) throw new Error("There is no enrolment.");
  await identity.enrolled({ ...enrolment, credential: "a.fresh.one" });
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(await readFile(path, "utf8")).toContain("a.fresh.one");
});
