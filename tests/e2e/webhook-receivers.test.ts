import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { JobRecord } from "../../schemas/job.ts";
import type { DeliveryFailure, WebhookDelivery } from "../../schemas/webhook.ts";
import { isAuthentic } from "../../scripts/local/receiver.ts";
import { Random } from "../fuzz/random.ts";
import { Customer } from "./customer.ts";
import { type BehaviourName, type OddReceiver, OddReceivers, SECRETS_IN_URLS } from "./odd-receivers.ts";
import { newFolder, removeFolder, type Started, start, waitFor } from "./stack.ts";

/** Every kind of receiver at once, over real sockets: who answers what, and what becomes of the delivery. */

/** Spec section 6.5. */
const MOST_ATTEMPTS = 4;
const RETRY_DELAYS_MS = [1_000, 5_000, 30_000];
const TIMEOUT_MS = 10_000;

interface Outcome {
  readonly status?: number;
  /** Absent: delivered. */
  readonly failure?: DeliveryFailure;
  readonly answer?: string;
}

type Slow = "silent" | "head that never ends";

/** The status line decides, and only a whole one; then as much of the text is kept as came. */
const OUTCOMES: Readonly<Record<Exclude<BehaviourName, Slow>, Outcome>> = {
  "200": { status: 200, answer: "thanks" },
  "204": { status: 204 },
  "200 after early hints": { status: 200, answer: "thanks" },
  "200, broken gzip": { status: 200 },
  "half a 200": { status: 200, answer: "half of it" },
  "endless 200": { status: 200, answer: "still" },
  "huge 200": { status: 200, answer: "x".repeat(1024) },
  "101": { status: 101, failure: "http_other" },
  "302": { status: 302, failure: "redirect" },
  "401": { status: 401, failure: "http_4xx", answer: "who are you?" },
  "404": { status: 404, failure: "http_4xx", answer: "no such page" },
  "500": { status: 500, failure: "http_5xx", answer: "boom" },
  "500, ready for more": { status: 500, failure: "http_5xx", answer: "boom" },
  "500, no text": { status: 500, failure: "http_5xx", answer: "\ufffd".repeat(1024) },
  "500, broken gzip": { status: 500, failure: "http_5xx" },
  "503": { status: 503, failure: "http_5xx", answer: "later" },
  "half a 500": { status: 500, failure: "http_5xx", answer: "half of it" },
  "endless 500": { status: 500, failure: "http_5xx", answer: "still" },
  "huge 500": { status: 500, failure: "http_5xx", answer: "x".repeat(1024) },
  "hangs up": { failure: "network" },
  resets: { failure: "network" },
  "half a head": { failure: "network" },
  "huge head": { failure: "network" },
  "no HTTP": { failure: "network" },
};
type Name = keyof typeof OUTCOMES;
const NAMES = Object.keys(OUTCOMES) as [Name, ...Name[]];
const delivers = (name: Name): boolean => OUTCOMES[name].failure === undefined;
const GOOD = NAMES.filter(delivers) as [Name, ...Name[]];
const BAD = NAMES.filter((name) => !delivers(name)) as [Name, ...Name[]];

function orders<T>(items: readonly T[]): T[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item, at) => orders(items.toSpliced(at, 1)).map((rest) => [item, ...rest]));
}

const random = new Random(6);
const SEQUENCES: readonly (readonly Name[])[] = [
  ...GOOD.map((name) => [name]),
  ...BAD.map((name) => [name, name, name, name]),
  ["302", "404", "204"],
  ...orders<Name>(["half a head", "500", "hangs up"]).map((names): Name[] => [...names, "200"]),
  ...Array.from({ length: 16 }, (_, n) => {
    const failures = Array.from({ length: 1 + (n % MOST_ATTEMPTS) }, () => random.pick(BAD));
    return failures.length < MOST_ATTEMPTS ? [...failures, random.pick(GOOD)] : failures;
  }),
];

/** Who can't even be asked. The local runtime has one word for most of what can go wrong; a name server may be silent. */
const UNREACHABLE: Readonly<Record<string, readonly DeliveryFailure[]>> = {
  "refuses connections": ["connection_refused", "network"],
  "has no certificate": ["tls", "network"],
  "has an unknown name": ["dns", "network", "timeout"],
};

/** An account's clock may differ from the receiver's by this: a message up to 20 ms early, and milliseconds cut off. */
const CLOCK_MS = 30;

interface Case {
  readonly receiver: OddReceiver;
  readonly job_id: string;
  /** Once it was over. */
  job: JobRecord;
  webhook: WebhookDelivery;
}

let folder: string;
let started: Started;
let customer: Customer;
const receivers = new OddReceivers();
const cases = new Map<string, Case>();

const titleOf = (names: readonly Name[]): string => names.join(" > ");
function caseOf(title: string): Case {
  const found = cases.get(title);
  if (!found) throw new Error(`no case ${title}`);
  return found;
}

async function submitted(receiver: OddReceiver): Promise<Pick<Case, "receiver" | "job_id">> {
  return { receiver, job_id: await customer.submit(receiver.url) };
}

/** Whom nothing keeps from their fourth attempt; the slow ones take a minute and more. */
async function allOver(waiting: ReadonlyMap<string, Pick<Case, "receiver" | "job_id">>): Promise<void> {
  await waitFor(
    "every delivery to be over",
    async () => {
      await new Promise((resolve) => setTimeout(resolve, 500));
      const jobs = await customer.jobs();
      const over = [...waiting.values()].every(({ job_id }) => jobs.get(job_id)?.webhook?.status !== "pending");
      return over || undefined;
    },
    90_000,
  );
  // Who would be asked once more would be so by now.
  await new Promise((resolve) => setTimeout(resolve, 2_000));
  for (const [title, { receiver, job_id }] of waiting) {
    const [job, webhook] = await Promise.all([customer.job(job_id), customer.webhook(job_id)]);
    cases.set(title, { receiver, job_id, job, webhook });
  }
}

let slow: readonly Pick<Case, "receiver" | "job_id">[];

beforeAll(async () => {
  folder = await newFolder();
  started = await start(folder);
  customer = await Customer.create(started.local);
  const waiting = new Map<string, OddReceiver>();
  for (const names of SEQUENCES) {
    // Who fails for good would take a fifth attempt.
    const last = names.at(-1) ?? "200";
    waiting.set(titleOf(names), await receivers.behaving(...names, delivers(last) ? last : "200"));
  }
  waiting.set("refuses connections", await receivers.refusing());
  waiting.set("has no certificate", await receivers.withoutCertificate());
  waiting.set("has an unknown name", receivers.unknown());
  slow = await Promise.all(
    [await receivers.behaving("silent"), await receivers.behaving("head that never ends")].map(submitted),
  );
  const jobs = await Promise.all(
    [...waiting].map(async ([title, receiver]) => [title, await submitted(receiver)] as const),
  );
  await allOver(new Map(jobs));
});

afterAll(async () => {
  await receivers.close();
  await started?.signal("SIGTERM");
  await removeFolder(folder);
});

const withoutUndefined = (record: object): object => JSON.parse(JSON.stringify(record)) as object;

describe("a receiver that answers, one attempt after the other", () => {
  it.each(SEQUENCES.map((names) => [titleOf(names), names] as const))("%s", (title, names) => {
    const { receiver, job, webhook } = caseOf(title);
    const last = OUTCOMES[names.at(-1) ?? "200"];
    const state = withoutUndefined({
      status: last.failure === undefined ? "delivered" : "failed",
      attempts: names.length,
      last_status: last.status,
    });
    expect(job.webhook).toEqual(state);
    expect(webhook).toMatchObject(state);
    expect(webhook.next_attempt_at).toBeUndefined();
    expect(receiver.received).toHaveLength(names.length);
    expect(
      webhook.log.map(({ round, attempt, delivered, failure, status, webhook_id }) =>
        withoutUndefined({ round, attempt, delivered, failure, status, webhook_id }),
      ),
    ).toEqual(
      names.map((name, n) =>
        withoutUndefined({
          round: 1,
          attempt: n + 1,
          delivered: delivers(name),
          failure: OUTCOMES[name].failure,
          status: OUTCOMES[name].status,
          webhook_id: receiver.received[n]?.headers["x-webhook-id"],
        }),
      ),
    );
    // What comes late of an answer is not waited for.
    for (const [n, name] of names.entries())
      expect(OUTCOMES[name].answer ?? "").toContain(webhook.log[n]?.answer ?? "");
  });
});

describe("a receiver that can't be asked, four times", () => {
  it.each(Object.entries(UNREACHABLE))("%s", (title, failures) => {
    const { job, webhook } = caseOf(title);
    expect(job.webhook).toEqual({ status: "failed", attempts: MOST_ATTEMPTS });
    expect(webhook.log.map(({ attempt, delivered }) => ({ attempt, delivered }))).toEqual(
      [1, 2, 3, 4].map((attempt) => ({ attempt, delivered: false })),
    );
    for (const { failure } of webhook.log) expect(failures).toContain(failure);
  });
});

describe("every delivery", () => {
  it("waits 1, 5 and 30 s after the failure before, never less", () => {
    for (const [title, { receiver, webhook }] of cases) {
      const ended = webhook.log.map(({ at, duration_ms }) => Date.parse(at) + duration_ms);
      for (const [n, delay_ms] of RETRY_DELAYS_MS.entries()) {
        const [before, after] = [webhook.log[n], webhook.log[n + 1]];
        if (!before || !after) break;
        const least = delay_ms - CLOCK_MS;
        expect(Date.parse(after.at) - (ended[n] ?? 0), `${title}, attempt ${n + 2}, by the log`).toBeGreaterThanOrEqual(
          least,
        );
        const [first, second] = [receiver.received[n], receiver.received[n + 1]];
        if (!first || !second) continue;
        expect(second.at - first.at, `${title}, attempt ${n + 2}`).toBeGreaterThanOrEqual(least);
      }
    }
  });

  it("has the same bytes and event in each attempt, with an id, a time and signatures of its own that verify", () => {
    const standard = new Webhook(btoa(customer.webhookSecret));
    for (const [title, { receiver, job_id, job }] of cases) {
      const { received } = receiver;
      for (const { target, headers, body } of received) {
        expect(target).toBe(new URL(receiver.url).pathname + new URL(receiver.url).search);
        expect(body.equals(received[0]?.body ?? Buffer.of()), title).toBe(true);
        expect(headers).toMatchObject({
          "content-type": "application/json",
          "x-webhook-event": "job.completed",
          "webhook-id": `evt_${job_id}`,
        });
        const [sent_at = "", signature = ""] = [headers["x-webhook-timestamp"], headers["x-webhook-signature"]];
        expect(isAuthentic(customer.webhookSecret, sent_at, signature, body, Date.now()), title).toBe(true);
        expect(standard.verify(body, headers)).toEqual({
          job_id,
          status: "completed",
          created_at: job.created_at,
          started_at: job.started_at,
          completed_at: job.completed_at,
          execution_time_ms: job.execution_time_ms,
          outputs: { images: job.outputs?.images },
        });
      }
      for (const name of ["x-webhook-id", "x-webhook-timestamp", "x-webhook-signature"])
        expect(new Set(received.map(({ headers }) => headers[name])).size, `${title}: ${name}`).toBe(received.length);
    }
  });

  it("keeps at most the first 1024 bytes of an answer", () => {
    const answers = [...cases.values()].flatMap(({ webhook }) => webhook.log.map(({ answer = "" }) => answer));
    expect(Math.max(...answers.map(({ length }) => length))).toBe(1024);
  });

  it("leaves no connection open to those who would go on for ever", async () => {
    await waitFor("the connections to be closed", () => {
      const unended = [...cases.entries()].filter(([title]) => /endless|huge/.test(title));
      return unended.every(([, { receiver }]) => receiver.connections.every(({ closed_at }) => closed_at !== undefined))
        ? true
        : undefined;
    });
  });

  it("shows of its URL nothing but the origin, in no log and no answer", async () => {
    const log = await readFile(join(folder, "log.txt"), "utf8");
    const shown = JSON.stringify([...cases.values()].map(({ job, webhook }) => [job, webhook]));
    for (const { receiver } of cases.values()) {
      expect(log).toContain(`"target":"${new URL(receiver.url).origin}"`);
      expect(shown).toContain(`"target":"${new URL(receiver.url).origin}"`);
    }
    for (const secret of [...SECRETS_IN_URLS, customer.webhookSecret]) {
      expect(log).not.toContain(secret);
      expect(shown).not.toContain(secret);
    }
  });
});

it("gives a silent receiver, and one whose answer never begins, 10 s each time, and then a second", async () => {
  for (const { receiver, job_id } of slow) {
    const webhook = await waitFor("two time-outs", async () => {
      const seen = await customer.webhook(job_id);
      return seen.log.length >= 2 ? seen : undefined;
    });
    for (const attempt of webhook.log) {
      expect(attempt).toMatchObject({ delivered: false, failure: "timeout" });
      expect(attempt.duration_ms).toBeGreaterThanOrEqual(TIMEOUT_MS - CLOCK_MS);
      expect(attempt.status).toBeUndefined();
    }
    const [first, second] = webhook.log.map(({ at }) => Date.parse(at));
    expect(Number(second) - Number(first)).toBeGreaterThanOrEqual(TIMEOUT_MS + 1_000 - CLOCK_MS);
    expect(receiver.received.length).toBeGreaterThanOrEqual(2);
    expect((await customer.job(job_id)).webhook).toMatchObject({ status: "pending" });
  }
});
