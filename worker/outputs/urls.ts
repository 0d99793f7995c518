import { base64url } from "jose";
import type { OutputDescription } from "../../schemas/job.ts";
import { RetentionClass } from "../../schemas/limits.ts";
import { outputPrefix } from "../account/outbox.ts";

/** Signed output URLs: the URL itself is the capability, good until it says (contract section 2, `GET /outputs/...`). */

export interface OutputAddress {
  readonly retention: RetentionClass;
  readonly account: string;
  readonly job: string;
  readonly fence: number;
  /** Position among the job's outputs. */
  readonly n: number;
  readonly filename: string;
  /** Epoch milliseconds. */
  readonly expires_at: number;
}

const imported = new Map<string, Promise<CryptoKey>>();

function hmacKey(secret: string): Promise<CryptoKey> {
  let key = imported.get(secret);
  if (!key) {
    const bytes = base64url.decode(secret);
    if (bytes.length < 32) throw new Error("OUTPUT_URL_KEY must be at least 32 bytes, base64url.");
    key = crypto.subtle.importKey("raw", bytes as Uint8Array<ArrayBuffer>, { name: "HMAC", hash: "SHA-256" }, false, [
      "sign",
      "verify",
    ]);
    imported.set(secret, key);
  }
  return key;
}

const encode = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text) as Uint8Array<ArrayBuffer>;

const pathOf = ({ retention, account, job, fence, n, filename }: OutputAddress): string =>
  `/outputs/${retention}/${account}/${job}/${fence}/${n}/${encodeURIComponent(filename)}`;

export const outputKey = (retention: RetentionClass, account: string, job: string, fence: number, n: number): string =>
  `${outputPrefix(retention, account, job, fence)}${n}`;

export async function signOutputUrl(baseUrl: string, secret: string, address: OutputAddress): Promise<string> {
  const path = pathOf(address);
  const expires = Math.floor(address.expires_at / 1000);
  const signature = await crypto.subtle.sign("HMAC", await hmacKey(secret), encode(`${path}?expires=${expires}`));
  return `${baseUrl}${path}?expires=${expires}&signature=${base64url.encode(new Uint8Array(signature))}`;
}

/** The R2 key that a good URL opens; undefined for an altered, malformed or expired one. */
export async function openOutputUrl(url: URL, secret: string, now: number): Promise<string | undefined> {
  const [, outputs, retention, account, job, fence, n, filename, ...rest] = url.pathname.split("/");
  const expires = url.searchParams.get("expires") ?? "";
  const signature = url.searchParams.get("signature") ?? "";
  if (outputs !== "outputs" || filename === undefined || rest.length > 0) return undefined;
  if (!/^\d{1,12}$/.test(expires) || Number(expires) * 1000 <= now || !/^[A-Za-z0-9_-]{43}$/.test(signature))
    return undefined;
  const bytes = base64url.decode(signature) as Uint8Array<ArrayBuffer>;
  const good = await crypto.subtle.verify(
    "HMAC",
    await hmacKey(secret),
    bytes,
    encode(`${url.pathname}?expires=${expires}`),
  );
  const known = RetentionClass.options.find((option) => option === retention);
  if (!good || !known || !account || !job) return undefined;
  return outputKey(known, account, job, Number(fence), Number(n));
}

/** One URL for each output of a completed job, in order. */
export function signOutputUrls(
  baseUrl: string,
  secret: string,
  address: Omit<OutputAddress, "n" | "filename">,
  files: readonly OutputDescription[],
): Promise<string[]> {
  return Promise.all(files.map(({ filename }, n) => signOutputUrl(baseUrl, secret, { ...address, n, filename })));
}
