import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { CASES, NEW, OLD, SECRETS } from "./cases.ts";
import {
  delivery,
  hangUp,
  newEvent,
  newSecret,
  send,
  sendChunked,
  sendTooLarge,
  signedBytes,
  urlOf,
} from "./deliveries.ts";
import { RECEIVERS, type Running } from "./receivers.ts";

/** The receivers of docs/webhooks.md run as they stand, against what the service sends and what strangers may send. */

const START_TIMEOUT_MS = 60_000;

describe.each(RECEIVERS)("$title", ({ start, toChunked }) => {
  let receiver: Running;
  /** What it has printed before the test, in lines, and must print because of it. */
  let before = 0;
  let due: string[] = [];

  beforeAll(async () => {
    receiver = await start(SECRETS);
  }, START_TIMEOUT_MS);

  beforeEach(() => {
    before = receiver.printed().length;
    due = [];
  });

  afterAll(() => receiver?.stop());

  /** Events are handled in order: when this one is printed, so is all that was to be printed before it. */
  const printedAll = async (): Promise<void> => {
    const last = newEvent();
    expect(await send(receiver.port, await delivery(last, { secrets: [NEW] }))).toBe(204);
    due.push(`job.cancelled ${last.job_id}`);
    await vi.waitFor(() => expect(receiver.printed()).toContain(due.at(-1)), { timeout: 5_000, interval: 5 });
    expect(receiver.printed().slice(before)).toEqual(due);
  };

  it.each(CASES.map((one) => [one.name, one] as const))("%s", async (_name, { make, status, handled }) => {
    const given = await make();
    expect(status).toContain(await send(receiver.port, given));
    if (handled) due.push(`job.cancelled ${JSON.parse(given.body.toString()).job_id}`);
    await printedAll();
  });

  it.each(["completed", "failed", "cancelled"])("handles the event of a %s job", async (status) => {
    const event = newEvent({ status });
    expect(await send(receiver.port, await delivery(event, { secrets: [NEW, OLD] }))).toBe(204);
    due.push(`job.${status} ${event.job_id}`);
    await printedAll();
  });

  it("handles a job once, however often it is told", async () => {
    const event = newEvent();
    const attempts = await Promise.all([0, 1, 2, 3].map(() => delivery(event, { secrets: [NEW, OLD] })));
    const [first] = attempts;
    due.push(`job.cancelled ${event.job_id}`);
    const answers = await Promise.all(attempts.map((attempt) => send(receiver.port, attempt)));
    expect(answers).toEqual([204, 204, 204, 204]);
    expect(first && (await send(receiver.port, first))).toBe(204);
    await printedAll();
  });

  it("takes the good delivery of a job after one that it has refused", async () => {
    const event = newEvent();
    const stranger = await delivery(event, { secrets: [newSecret()] });
    expect(await send(receiver.port, stranger)).toBe(401);
    expect(await send(receiver.port, await delivery(event, { secrets: [NEW] }))).toBe(204);
    due.push(`job.cancelled ${event.job_id}`);
    await printedAll();
  });

  it("refuses a body over 1 MiB without waiting for its end", async () => {
    expect(await sendTooLarge(receiver.port, "length")).toBe(413);
    await printedAll();
  });

  it("refuses a body over 1 MiB that does not say its length", async () => {
    expect(await sendTooLarge(receiver.port, "chunked")).toBe(toChunked === 204 ? 413 : toChunked);
    await printedAll();
  });

  it(`answers ${toChunked} to a body that does not say its length`, async () => {
    const event = newEvent();
    expect(await sendChunked(receiver.port, await delivery(event, { secrets: [NEW] }))).toBe(toChunked);
    if (toChunked === 204) due.push(`job.cancelled ${event.job_id}`);
    await printedAll();
  });

  it("survives a sender that hangs up", async () => {
    await hangUp(receiver.port, await delivery(newEvent(), { secrets: [NEW] }));
    await printedAll();
  });

  it("takes POST only", async () => {
    const { status } = await fetch(urlOf(receiver.port));
    expect([404, 405]).toContain(status);
  });
});

describe("without a secret", () => {
  it.each(RECEIVERS.filter(({ title }) => title !== "worker.ts"))("$title does not start", async ({ start }) => {
    const started = start(" ,").then((running) => running.stop());
    await expect(started).rejects.toThrow("WEBHOOK_SECRETS has no secret.");
  });

  it("worker.ts takes nothing", { timeout: START_TIMEOUT_MS }, async () => {
    const worker = RECEIVERS.find(({ title }) => title === "worker.ts");
    const running = await worker?.start(" ,");
    const answer = running && (await send(running.port, signedBytes(JSON.stringify(newEvent()), "")));
    await running?.stop();
    expect(answer).toBe(401);
  });
});
