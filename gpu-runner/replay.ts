/** Remembers the names of signed requests until they have expired, so that each of them acts once. */
export interface ReplayCache {
  /**
   * Takes `jti` in use until `until`. False where it was used before, and where `max` names are in use: a request that can't be
   * remembered must not act. Times are epoch milliseconds.
   */
  use(jti: string, until: number, now: number): boolean;
}

/** A thousand signed requests a second, for as long as each of them is good. Only the edge can make them. */
const MAX_NAMES = 200_000;

export function createReplayCache({ max = MAX_NAMES }: { max?: number } = {}): ReplayCache {
  const used = new Map<string, number>();
  return {
    use(jti, until, now) {
      // Expiries rise nearly in the order of arrival: the oldest names are the first to go.
      for (const [name, end] of used) {
        if (end > now) break;
        used.delete(name);
      }
      if (used.has(jti) || used.size >= max) return false;
      used.set(jti, until);
      return true;
    },
  };
}
