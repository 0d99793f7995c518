import type { DeliveryFailure } from "../../schemas/webhook.ts";

/** Small things that several pages say in the same way. */

/** A moment. The script shows it in the reader's own zone. */
export function Time({ at }: { at: number | string }) {
  const iso = new Date(at).toISOString();
  return <time datetime={iso}>{`${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`}</time>;
}

const UNITS = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1_000, "s"],
] as const;

/** A length of time in its two largest units, as in "2 min 5 s". */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const parts: string[] = [];
  let rest = ms;
  for (const [unit, name] of UNITS) {
    const count = Math.floor(rest / unit);
    if (count > 0 || parts.length > 0) parts.push(`${count} ${name}`);
    rest -= count * unit;
    if (parts.length === 2) break;
  }
  return parts.filter((part) => !part.startsWith("0 ")).join(" ");
}

const TONES: Readonly<Record<string, "good" | "bad" | "wait" | "idle">> = {
  completed: "good",
  delivered: "good",
  active: "good",
  failed: "bad",
  revoked: "bad",
  lost: "bad",
  suspended: "bad",
  open: "wait",
  running: "wait",
  queued: "wait",
  pending: "wait",
  draining: "wait",
};

/** A state in the service's own word, with a colour that is not needed to read it. */
export function State({ of }: { of: string }) {
  return <span class={`state ${TONES[of] ?? "idle"}`}>{of}</span>;
}

const FAILURES: Readonly<Record<DeliveryFailure, string>> = {
  connection_refused: "nothing accepts connections there",
  dns: "the host name does not resolve",
  timeout: "no answer within 10 s",
  tls: "no secure connection",
  redirect: "it redirects",
  http_4xx: "the receiver refused it",
  http_5xx: "the receiver failed",
  http_other: "its answer was no 2xx",
  forbidden_target: "the URL is not allowed",
  address_not_called: "the address is not called",
  network: "no connection, or it broke off",
  claim_expired: "interrupted; the outcome is not known",
};

export const failureWords = (failure: DeliveryFailure, status?: number): string =>
  status === undefined ? FAILURES[failure] : `${FAILURES[failure]} (${status})`;

/** A value to copy. The button needs the script and is hidden without. */
export function Secret({ id, value, label }: { id: string; value: string; label: string }) {
  return (
    <div class="secret">
      <code id={id}>{value}</code>
      <button type="button" class="quiet" data-copy={id} title={`Copy ${label}`} hidden>
        Copy
      </button>
    </div>
  );
}

/** A link to a job, by its first and last characters; the rest is in the title. */
export function JobLink({ id }: { id: string }) {
  return (
    <a href={`/portal/jobs/${id}`} title={id}>
      <code>{`${id.slice(0, 8)}…${id.slice(-6)}`}</code>
    </a>
  );
}

/** Links to the pages before and after. */
export function Pages({ first, next }: { first?: string | undefined; next?: string | undefined }) {
  if (first === undefined && next === undefined) return null;
  return (
    <nav class="pages" aria-label="Pages">
      {first === undefined ? null : <a href={first}>Back to the newest</a>}
      {next === undefined ? null : <a href={next}>Older</a>}
    </nav>
  );
}

/** A query without what is not set. */
export function query(fields: Readonly<Record<string, string | number | undefined>>): string {
  const set = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined || value === "" ? [] : [`${name}=${encodeURIComponent(String(value))}`],
  );
  return set.length === 0 ? "" : `?${set.join("&")}`;
}
