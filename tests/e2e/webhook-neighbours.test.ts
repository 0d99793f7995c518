import { afterAll, beforeAll, expect, it } from "vitest";
import { Customer } from "./customer.ts";
import { type OddReceiver, OddReceivers } from "./odd-receivers.ts";
import { newFolder, removeFolder, type Started, start, waitFor } from "./stack.ts";

/** What the receivers of one customer cost the others. */

/** Contract section 5: deliveries of one account. */
const MAX_IN_FLIGHT = 50;

let folder: string;
let started: Started;
const receivers = new OddReceivers();

beforeAll(async () => {
  folder = await newFolder();
  started = await start(folder);
});

afterAll(async () => {
  await receivers.close();
  await started?.signal("SIGTERM");
  await removeFolder(folder);
});

/** When the first of its connections was given up; undefined as long as all are open. */
function firstGivenUp({ connections }: OddReceiver): number | undefined {
  const ends = connections.flatMap(({ closed_at }) => closed_at ?? []);
  return ends.length === 0 ? undefined : Math.min(...ends);
}

/** This process may hear of a connection's end later than of what followed it. */
const HEARD_LATE_MS = 100;

it("delivers to one customer while all deliveries that another may have in flight wait for silent receivers", async () => {
  const [busy, other] = await Promise.all([
    Customer.create(started.local, { idle: true }),
    Customer.create(started.local, { idle: true }),
  ]);
  const silent = await receivers.behaving("silent");
  const quick = await receivers.behaving("200");
  const jobs = await Promise.all(Array.from({ length: MAX_IN_FLIGHT + 10 }, () => busy.endedJob(silent.url)));
  await waitFor("all that may be in flight", () => (silent.received.length >= MAX_IN_FLIGHT ? true : undefined));

  await other.endedJob(quick.url);
  const arrived = await waitFor("the other customer's delivery", () => quick.received[0]?.at);
  const given_up = await waitFor("the first time-out", () => firstGivenUp(silent));
  expect(arrived).toBeLessThan(given_up);

  // Those beyond had to wait, which counts as no attempt; all are asked in the end.
  const before = silent.connections.filter(({ opened_at }) => opened_at < given_up - HEARD_LATE_MS);
  expect(before).toHaveLength(MAX_IN_FLIGHT);
  await waitFor("every silent receiver to be asked", () => {
    const asked = new Set(silent.received.map(({ headers }) => headers["webhook-id"]));
    return asked.size === jobs.length || undefined;
  });
  for (const { webhook } of (await busy.jobs()).values()) expect(webhook).toMatchObject({ status: "pending" });
});
