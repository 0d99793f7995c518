import type { DeliveryFailure } from "../../schemas/webhook.ts";
import { reasonOf } from "../log.ts";

/** What an attempt's answer or fault is called in the log (contract section 5). */

/**
 * The platform's edge answers for hosts that it can't reach, with statuses of its own. A receiver that sits behind the same edge is
 * reported so too, with the same meaning.
 */
const EDGE_STATUSES: Readonly<Record<number, DeliveryFailure>> = {
  521: "connection_refused",
  522: "timeout",
  523: "network",
  524: "timeout",
  525: "tls",
  526: "tls",
};
/** Numbers that the edge writes into such an answer. */
const EDGE_ERRORS: Readonly<Record<number, DeliveryFailure>> = {
  1000: "address_not_called",
  1003: "address_not_called",
  1016: "dns",
};

export function failureOfAnswer(status: number, answer: string): DeliveryFailure {
  const [, number] = /^error code: (\d{4})\b/.exec(answer.trim()) ?? [];
  const byNumber = number === undefined ? undefined : EDGE_ERRORS[Number(number)];
  if (byNumber) return byNumber;
  const byStatus = EDGE_STATUSES[status];
  if (byStatus) return byStatus;
  if (status >= 300 && status < 400) return "redirect";
  if (status >= 400 && status < 500) return "http_4xx";
  return status >= 500 && status < 600 ? "http_5xx" : "http_other";
}

/** The runtime names network faults in words only. */
const WORDS: readonly (readonly [RegExp, DeliveryFailure])[] = [
  [/refused/, "connection_refused"],
  [/dns|name not resolved/, "dns"],
  [/tls|ssl|certificate/, "tls"],
];

export function failureOfError(error: unknown): DeliveryFailure {
  if (error instanceof Error && error.name === "TimeoutError") return "timeout";
  const words = reasonOf(error).toLowerCase();
  return WORDS.find(([pattern]) => pattern.test(words))?.[1] ?? "network";
}
