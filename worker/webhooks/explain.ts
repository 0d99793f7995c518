import { RECEIVER_TIMEOUT_MS } from "../../schemas/webhook.ts";
import type { AttemptLog } from "../account/store.ts";

/** What happened to an attempt and what its receiver's owner can do about it, in plain words. */

const ADVICE_BY_STATUS: Readonly<Record<number, string>> = {
  304: "Only an answer of 200 to 299 counts as delivered.",
  400: "It could not read the request. The body is JSON in UTF-8, sent as application/json.",
  401: "It did not accept the request's signature or wants a login. Verify the signature over the raw body, with the current webhook secret.",
  403: "It, or a firewall before it, refuses the service. Let POST requests of the service through.",
  404: "There is nothing at that path. Check the path of webhook_url.",
  405: "It does not take POST there. Check the path of webhook_url and the methods that it allows.",
  410: "It says that this address is gone for good. Give another webhook_url.",
  413: "The body was too large for it. Raise the size that it accepts.",
  415: "It does not take application/json. Let it.",
  429: "It was asked too often. Raise its limit for this service.",
  502: "A proxy before it got no good answer. Check that the application behind the proxy is running.",
  503: "It says that it is not available. Check that the application is running.",
  504: "A proxy before it got no answer in time. Answer first and do the work afterwards.",
};

function explainStatus(status: number): string {
  const advice = ADVICE_BY_STATUS[status];
  if (advice !== undefined) return advice;
  if (status >= 500 && status < 600)
    return "It failed while it handled the request. Look into its own log at this time.";
  return "Only an answer of 200 to 299 counts as delivered.";
}

export function explain({ ok, status, failure, duration_ms, rule }: AttemptLog): string {
  const answered = `The receiver answered ${status} after ${Math.round(duration_ms)} ms.`;
  if (ok) return `Delivered. ${answered}`;
  switch (failure) {
    case "connection_refused":
      return "Nothing accepts connections at that host and port. Check that the receiver is running, that the port of webhook_url is right, and that a firewall lets it be reached from the Internet.";
    case "dns":
      return "The host name of webhook_url does not resolve. Check its spelling, and that it is in public DNS.";
    case "timeout":
      return `The receiver did not answer within ${RECEIVER_TIMEOUT_MS / 1000} s. Answer with 2xx first and do the work afterwards; if it never saw the request, check that a firewall lets it be reached.`;
    case "tls":
      return "No secure connection could be made. Check the receiver's certificate: that it has not expired, is made for this host name, comes from a public authority and is sent with its intermediate certificates.";
    case "redirect":
      return `${answered} ${ADVICE_BY_STATUS[status ?? 0] ?? "Redirects are not followed. Give the final address as webhook_url."}`;
    case "forbidden_target":
      return `The receiver was not called: webhook_url is not allowed, ${rule ?? "by the rules for targets"}. Submit with another webhook_url.`;
    case "address_not_called":
      return "The receiver was not called: the network that sends webhooks calls no bare IP addresses, and no names that resolve to private ones. Give a public host name in webhook_url.";
    case "claim_expired":
      return "The service was interrupted during this attempt and can't say whether the receiver got it.";
    case "http_4xx":
    case "http_5xx":
    case "http_other":
      return `${answered} ${explainStatus(status ?? 0)}`;
    default:
      return "No connection could be made, or it broke off before there was an answer; which of the two is not known. Check, in this order: the host name of webhook_url is spelled right and in public DNS; the receiver is running, and a firewall lets its port be reached; its certificate is valid for that name; it sends a whole HTTP answer.";
  }
}
