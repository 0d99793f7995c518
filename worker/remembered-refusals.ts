import type { Gate } from "./account/keys.ts";

/** Keys remembered an isolate. */
const MOST = 5_000;

/**
 * Refusals that are final or have an end, so that a flood with a dead key never reaches its account (design section 4): a
 * revoked key for good, an exhausted window until its reset. Nothing else is remembered.
 */
export class RememberedRefusals {
  readonly #gates = new Map<string, Gate>();

  remember(keyHash: string, gate: Gate): void {
    if (gate.ok || (gate.code !== "revoked_api_key" && gate.code !== "rate_limit_exceeded")) return;
    if (this.#gates.size >= MOST) {
      const [oldest] = this.#gates.keys();
      if (oldest !== undefined) this.#gates.delete(oldest);
    }
    this.#gates.set(keyHash, gate);
  }

  recall(keyHash: string, now: number): Gate | undefined {
    const gate = this.#gates.get(keyHash);
    if (!gate || gate.ok) return undefined;
    if (gate.code === "rate_limit_exceeded" && (gate.window === undefined || now >= gate.window.reset_at)) {
      this.#gates.delete(keyHash);
      return undefined;
    }
    return gate;
  }
}
