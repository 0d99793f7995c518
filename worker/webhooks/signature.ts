/** The signatures of a delivery (spec section 6.4; Standard Webhooks beside it, contract section 5). */

const encode = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;

async function hmac(secret: string, text: string): Promise<Uint8Array> {
  const key = await crypto.subtle.importKey("raw", encode(secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, encode(text)));
}

const hex = (bytes: Uint8Array): string => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export interface DeliveryToSign {
  readonly body: string;
  /** The current one first; at least that. */
  readonly secrets: readonly string[];
  readonly now: number;
  /** Unique to this attempt. */
  readonly attempt_id: string;
  /** Stable over the attempts and rounds of one event. */
  readonly event_id: string;
  readonly event: string;
}

/** Standard Webhooks: one signature a secret, so that a receiver may take its time to learn a new one. */
async function standardSignatures(secrets: readonly string[], text: string): Promise<string> {
  const signatures = await Promise.all(secrets.map((secret) => hmac(secret, text)));
  return signatures.map((bytes) => `v1,${btoa(String.fromCharCode(...bytes))}`).join(" ");
}

/** All headers of one delivery (spec section 6.2, contract section 5). */
export async function deliveryHeaders({
  body,
  secrets,
  now,
  attempt_id,
  event_id,
  event,
}: DeliveryToSign): Promise<Record<string, string>> {
  const timestamp = new Date(now).toISOString();
  const seconds = Math.floor(now / 1000);
  const [current] = secrets;
  if (current === undefined) throw new Error("There is no secret to sign with.");
  return {
    "Content-Type": "application/json",
    "User-Agent": "Darkroom-Webhooks/1",
    "X-Webhook-ID": attempt_id,
    "X-Webhook-Timestamp": timestamp,
    "X-Webhook-Event": event,
    "X-Webhook-Signature": `sha256=${hex(await hmac(current, `${timestamp}.${body}`))}`,
    "webhook-id": event_id,
    "webhook-timestamp": String(seconds),
    "webhook-signature": await standardSignatures(secrets, `${event_id}.${seconds}.${body}`),
  };
}
