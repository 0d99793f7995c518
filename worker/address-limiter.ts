import ipaddr from "ipaddr.js";
import { createDurable, proxyDurable } from "itty-durable";
import { ADDRESS_REQUESTS_PER_WINDOW, WINDOW_MS } from "../schemas/limits.ts";
import { type RequestWindow, viewWindow, type WindowView } from "./account/keys.ts";
import type { Env } from "./env.ts";

/**
 * Requests without a usable key, counted by client address (contract section 3). In memory only: what an idle object forgets is
 * a flood that has stopped.
 */
export class AddressObject extends createDurable({ autoReturn: false }) {
  /** A property of the object that the base class may load and reset; never stored, because nothing persists it. */
  window: RequestWindow = { opened_at: 0, used: 0 };

  /**
   * Counts `cost` requests (0 looks only). Called by its name from `countAddress` alone: no part of a client's request reaches
   * this object's method names.
   */
  take(cost: number, now: number): { allowed: boolean; window: WindowView } {
    const limit = ADDRESS_REQUESTS_PER_WINDOW;
    const before = viewWindow(this.window, limit, now);
    const opened_at = before.reset_at - WINDOW_MS;
    const used = limit - before.remaining;
    const allowed = used + cost <= limit;
    if (cost > 0 && allowed) this.window = { opened_at, used: used + cost };
    return { allowed, window: viewWindow(this.window, limit, now) };
  }
}

/** The address that shares one window: IPv4 as it is, IPv6 by its /64. Without one, all share a window. */
export function addressGroup(header: string | undefined): string {
  if (header === undefined || !ipaddr.isValid(header)) return "unknown";
  const address = ipaddr.process(header);
  if (address.kind() === "ipv4") return address.toString();
  return `${(address as ipaddr.IPv6).parts
    .slice(0, 4)
    .map((part) => part.toString(16))
    .join(":")}::/64`;
}

export interface AddressVerdict {
  readonly allowed: boolean;
  readonly window: WindowView;
}

/** Counts a request against its client address. `header` is `CF-Connecting-IP`, which the edge sets and clients can't. */
export async function countAddress(
  namespace: Env["ADDRESS"],
  header: string | undefined,
  cost: 0 | 1,
): Promise<AddressVerdict> {
  const object: { take(cost: number, now: number): Promise<AddressVerdict> } = proxyDurable(namespace, {
    name: "address",
    parse: true,
  }).get(addressGroup(header));
  const { allowed, window } = await object.take(cost, Date.now());
  return { allowed, window };
}
