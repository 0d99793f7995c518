import {
  type Delivery,
  delivery,
  type JobEvent,
  MAX_BODY_BYTES,
  newEvent,
  newSecret,
  type Signing,
  signedBytes,
} from "./deliveries.ts";

/** What every receiver of docs/webhooks.md does with a delivery. It knows the secrets NEW and OLD. */

export const NEW = newSecret();
export const OLD = newSecret();
/** A comma at the end and a space must not make a secret of nothing. */
export const SECRETS = `${NEW}, ${OLD},`;

const BOTH: Signing = { secrets: [NEW, OLD] };

// Timestamps have whole seconds: rounded so that neither the fraction nor the second it may take to arrive decides a case.
const secondBefore = (): number => Math.floor(Date.now() / 1000) * 1000;
const secondAfter = (): number => Math.ceil(Date.now() / 1000) * 1000;

export interface Case {
  readonly name: string;
  readonly make: () => Delivery | Promise<Delivery>;
  /** The answers that are right. */
  readonly status: readonly number[];
  readonly handled: boolean;
}

const good = (name: string, make: Case["make"]): Case => ({
  name: `takes a delivery ${name}`,
  make,
  status: [204],
  handled: true,
});
const refused = (name: string, make: Case["make"], ...status: number[]): Case => ({
  name: `answers ${status.join(" or ")} to ${name}`,
  make,
  status,
  handled: false,
});

/** A good delivery with other headers. */
const withHeaders = async (change: (headers: Readonly<Record<string, string>>) => Record<string, string>) => {
  const { headers, body } = await delivery(newEvent(), BOTH);
  return { headers: { ...headers, ...change(headers) }, body };
};

const withSignature = (change: (signature: string) => string) => async (): Promise<Delivery> => {
  const { headers, body } = await delivery(newEvent(), { secrets: [NEW] });
  return { headers: { ...headers, "webhook-signature": change(headers["webhook-signature"] ?? "") }, body };
};

const without = (name: string) => async (): Promise<Delivery> => {
  const { headers, body } = await delivery(newEvent(), BOTH);
  return { headers: Object.fromEntries(Object.entries(headers).filter(([key]) => key !== name)), body };
};

/** An event whose body has exactly this many bytes. */
function eventOf(bytes: number): JobEvent {
  const empty = Buffer.byteLength(JSON.stringify(newEvent({ padding: "" })));
  return newEvent({ padding: "x".repeat(bytes - empty) });
}

const GOOD: readonly Case[] = [
  good("signed by both secrets", () => delivery(newEvent(), BOTH)),
  good("signed by the new secret alone", () => delivery(newEvent(), { secrets: [NEW] })),
  good("signed by the old secret alone", () => delivery(newEvent(), { secrets: [OLD] })),
  good("signed by a secret that is newer than both, and by one of them", () =>
    delivery(newEvent(), { secrets: [newSecret(), NEW] }),
  ),
  good("299 s old", () => delivery(newEvent(), { ...BOTH, now: secondAfter() - 299_000 })),
  good("299 s ahead", () => delivery(newEvent(), { ...BOTH, now: secondBefore() + 299_000 })),
  good("with Unicode in its body", () =>
    delivery(newEvent({ metadata: { "naïve ключ": 'Größe 🌄 \u2028 \u0000 "\\' } }), BOTH),
  ),
  good("of exactly 1 MiB", () => delivery(eventOf(MAX_BODY_BYTES), BOTH)),
  good("of another content type", () => withHeaders(() => ({ "Content-Type": "text/plain; charset=latin1" }))),
  good("with signatures of other kinds before its own", () =>
    withHeaders((headers) => ({
      "webhook-signature": `v1a,AAAA v1 ,, v1,${"A".repeat(43)}= ${headers["webhook-signature"]}`,
    })),
  ),
];

const NOT_AUTHENTIC: readonly Case[] = [
  refused(
    "a body with one other byte",
    async () => {
      const { headers, body } = await delivery(newEvent(), BOTH);
      const at = body.indexOf("cancelled");
      return { headers, body: Buffer.concat([body.subarray(0, at), Buffer.from("C"), body.subarray(at + 1)]) };
    },
    401,
  ),
  refused(
    "the body of another delivery",
    async () => {
      const [one, other] = [await delivery(newEvent(), BOTH), await delivery(newEvent(), BOTH)];
      return { headers: one.headers, body: other.body };
    },
    401,
  ),
  refused("no body", async () => ({ ...(await delivery(newEvent(), BOTH)), body: Buffer.alloc(0) }), 401),
  refused(
    "a signature with one other character",
    withSignature((given) => given.replace(/^v1,./, (start) => (start === "v1,A" ? "v1,B" : "v1,A"))),
    401,
  ),
  ...Object.entries<(given: string) => string>({
    "no text": () => "",
    "a version and no signature": () => "v1",
    "a version, a comma and no signature": () => "v1,",
    "one character less": (given) => given.slice(0, -1),
    "one character more": (given) => `${given}=`,
    "an odd number of characters": () => "v1,abc",
    "a single character": () => "v1,a",
    "no version": (given) => given.slice(3),
    "another version": (given) => given.replace("v1,", "v2,"),
    capitals: (given) => given.toUpperCase(),
    "other characters than ASCII": (given) => `v1,é${given.slice(4)}`,
    "8000 characters": () => `v1,${"A".repeat(8000)}`,
    "2000 parts": () => "v1,A ".repeat(2000).trim(),
  }).map(([name, change]) => refused(`a signature of ${name}`, withSignature(change), 401)),
  ...["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => refused(`no ${name}`, without(name), 401)),
  refused("no header of ours", async () => ({ headers: {}, body: (await delivery(newEvent(), BOTH)).body }), 401),
  refused("another webhook-id", () => withHeaders(() => ({ "webhook-id": "evt_other" })), 401),
  refused(
    "another time than the signed one",
    () => withHeaders(({ "webhook-timestamp": at }) => ({ "webhook-timestamp": String(Number(at) + 1) })),
    401,
  ),
  refused("a delivery 301 s old", () => delivery(newEvent(), { ...BOTH, now: secondBefore() - 301_000 }), 401),
  refused("a delivery 301 s ahead", () => delivery(newEvent(), { ...BOTH, now: secondAfter() + 301_000 }), 401),
  ...["", "soon", "NaN", "Infinity", "-1", "1e400", "9".repeat(400), "2026-01-15T12:00:00.000Z", "0x7fffffff"].map(
    (at) =>
      refused(
        `a delivery signed with the time "${at.slice(0, 30)}"`,
        () => signedBytes(JSON.stringify(newEvent()), NEW, at),
        401,
      ),
  ),
  refused("a delivery signed by an unknown secret", () => delivery(newEvent(), { secrets: [newSecret()] }), 401),
  refused("a delivery signed by an empty secret", () => signedBytes(JSON.stringify(newEvent()), ""), 401),
  refused("a delivery signed by all secrets as one text", () => delivery(newEvent(), { secrets: [SECRETS] }), 401),
  refused(
    "a body that is no JSON and not signed",
    async () => ({ headers: (await delivery(newEvent(), BOTH)).headers, body: Buffer.from("{") }),
    401,
  ),
];

const NOT_AN_EVENT: readonly Case[] = [
  ...Object.entries({
    "body of no bytes": "",
    "body that is no JSON": '{"job_id":',
    "body that is nested too deep": "[".repeat(MAX_BODY_BYTES),
    null: "null",
    array: '[{"job_id":"a","status":"completed"}]',
    string: '"job_id"',
    number: "1",
    "object without a job_id": '{"status":"completed"}',
    "object whose job_id is no string": '{"job_id":{"length":1},"status":"completed"}',
    "object without a status": '{"job_id":"019bc186-de00-7c3e-8f61-5d2b9c40a7d3"}',
  }).map(([name, body]) => refused(`a well signed ${name}`, () => signedBytes(body, NEW), 400)),
  // The library decodes before it verifies: to it, other bytes were signed.
  refused(
    "well signed bytes that are no UTF-8",
    () => signedBytes(Buffer.from('{"job_id":"\xff","status":"completed"}', "latin1"), NEW),
    400,
    401,
  ),
];

export const CASES: readonly Case[] = [...GOOD, ...NOT_AUTHENTIC, ...NOT_AN_EVENT];
