import { runInDurableObject } from "cloudflare:test";
import { players } from "./played-runner.ts";
import { accountObject, fireTimers, HELLO, submitted, type TestAccount } from "./service.ts";

/** One delivery as it came over the wire. */
export interface Received {
  readonly at: number;
  readonly url: string;
  readonly method: string;
  readonly headers: Headers;
  readonly body: string;
}

let hosts = 0;

/** A customer's endpoint at a host of its own; answers 200 unless told otherwise. */
export class PlayedReceiver {
  readonly url = `https://hooks-${++hosts}.example.org/darkroom?secret=s3cret`;
  readonly received: Received[] = [];
  answer: (received: Received) => Response | Promise<Response> = () => new Response("thanks");

  constructor() {
    players.set(new URL(this.url).host, async (request) => {
      const { url, method, headers } = request;
      const received = { at: Date.now(), url, method, headers, body: await request.text() };
      this.received.push(received);
      return this.answer(received);
    });
  }
}

/** A job that ended without a runner: its queue time is over. */
export async function failedJob(account: TestAccount, webhook_url: string): Promise<string> {
  const { job_id } = await submitted(account.api_key, { prompt: HELLO, webhook_url, metadata: { order: 7 } });
  await runInDurableObject(accountObject(account), (_, state) => {
    state.storage.sql.exec("UPDATE jobs SET body = json_set(body, '$.queue_until', 1000) WHERE job_id = ?", job_id);
  });
  await fireTimers(account, "job");
  return job_id;
}

async function hmac(secret: string, text: string): Promise<Uint8Array> {
  const encode = (value: string) => new TextEncoder().encode(value);
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", encode(secret), algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, encode(text)));
}

export const hmacHex = async (secret: string, text: string): Promise<string> =>
  [...(await hmac(secret, text))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export const hmacBase64 = async (secret: string, text: string): Promise<string> =>
  btoa(String.fromCharCode(...(await hmac(secret, text))));
