import { request } from "node:http";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test, vi } from "vitest";
import { MAX_ORDER_BYTES } from "../../gpu-runner/server.ts";
import { RUNNER_PATHS } from "../../schemas/runner-protocol.ts";
import { signRequest } from "../../schemas/signed-request.ts";
import { anExecution, type FakeEdge } from "../fakes/edge.ts";
import { anOutput, aRunner, completed, untilInterrupted } from "./harness.ts";

const MIB = 1 << 20;
/** Of the largest orders. */
const AT_ONCE = 5;

/** How much of others' bytes a runner holds, whoever signs them. */

/** A signed order of `size` bytes, of which the last is kept back until `finish`. */
async function slowOrder(edge: FakeEdge, url: string, size: number, { sized = true } = {}) {
  const signed = { type: "dispatch+jwt", audience: url, method: "POST", url: url + RUNNER_PATHS.executions } as const;
  const jti = crypto.randomUUID();
  const token = await signRequest({ ...signed, bodySha256: "A".repeat(43), jti, now: Date.now() }, edge.signer);
  const headers = { authorization: `Bearer ${token}`, ...(sized ? { "content-length": size } : {}) };
  const sending = request(url + RUNNER_PATHS.executions, { method: "POST", headers });
  const status = new Promise<number | undefined>((resolve) => {
    sending.on("response", (response) => resolve(response.resume().statusCode));
    sending.on("error", () => resolve(undefined));
  });
  sending.write(Buffer.alloc(size - 1, " "));
  return { status, finish: () => sending.end(" "), cancel: () => sending.destroy() };
}

/** What the runner says to an order that is none: 400 where it has read it. */
const probe = async (edge: FakeEdge, url: string) => (await edge.post(url, RUNNER_PATHS.executions, "{}")).status;

test("so many bodies are read at once; the next is refused unread, and the end of one makes room", async () => {
  const { edge, url } = await aRunner(untilInterrupted);
  // One of them does not say how long it is.
  const slow = await Promise.all(
    Array.from({ length: AT_ONCE }, (_, n) => slowOrder(edge, url, MAX_ORDER_BYTES, { sized: n > 0 })),
  );
  await vi.waitFor(async () => expect(await probe(edge, url)).toBe(429));
  const refused = await slowOrder(edge, url, MAX_ORDER_BYTES);
  expect(await refused.status).toBe(429);
  refused.cancel();
  // A stop is short and always heard.
  expect((await edge.post(url, RUNNER_PATHS.stops, JSON.stringify(anExecution()))).status).toBe(204);

  const [cancelled, ...others] = slow;
  cancelled?.cancel();
  await vi.waitFor(async () => expect(await probe(edge, url)).toBe(400));
  for (const order of others) order.finish();
  for (const order of others) expect(await order.status).toBe(401);
  const again = await Promise.all(slow.map(() => slowOrder(edge, url, MAX_ORDER_BYTES)));
  for (const order of again) order.finish();
  for (const order of again) expect(await order.status).toBe(401);
});

test("a stop or a nonce that is long is refused", async () => {
  const { edge, url } = await aRunner(untilInterrupted);
  const stop = JSON.stringify({ ...anExecution(), padding: "x".repeat(5_000) });
  const nonce = JSON.stringify({ nonce: "n".repeat(20), padding: "x".repeat(5_000) });
  expect((await edge.post(url, RUNNER_PATHS.stops, stop)).status).toBe(413);
  expect((await edge.post(url, RUNNER_PATHS.proof, nonce)).status).toBe(413);
});

test("a stranger's body is refused before it comes", async () => {
  const { url } = await aRunner(untilInterrupted);
  const sending = request(url + RUNNER_PATHS.executions, { method: "POST", headers: { "content-length": 1 << 20 } });
  const status = new Promise((resolve) => sending.on("response", (response) => resolve(response.statusCode)));
  sending.on("error", () => {}).write("{");
  expect(await status).toBe(401);
  sending.destroy();
});

test("a body that stays slow takes no seat from another order", async () => {
  const { edge, url } = await aRunner(untilInterrupted);
  const slow = await slowOrder(edge, url, 1 << 20);
  expect((await edge.dispatch(url, anExecution())).status).toBe(202);
  slow.cancel();
});

test("a prompt is let go when its engine is done, however long the report has to be repeated", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const { edge, url, engine } = await aRunner(async () => completed(anOutput("x")));
  edge.answers.end = () => ({ status: 500 });
  const used = () => {
    collect();
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const size = 4 * MIB;
  const runs = 12;
  const before = used();
  for (let n = 1; n <= runs; n++) {
    expect((await edge.dispatch(url, anExecution(), { prompt: `{"${n}":"${"x".repeat(size)}"}` })).status).toBe(202);
    await vi.waitFor(() => expect(engine.prompts).toHaveLength(1));
    engine.prompts.length = 0;
  }
  await vi.waitFor(() => expect(edge.beats.at(-1)?.held).toHaveLength(runs));
  // What passed through on the way is garbage by and by.
  await vi.waitFor(() => expect(used() - before).toBeLessThan((runs * size) / 2), { timeout: 5_000, interval: 200 });
});
