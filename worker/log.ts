/**
 * One line of JSON an event: what happened, in tags that can be searched. Never a key, a token, a prompt or the path of a
 * webhook URL.
 */
export function log(level: "info" | "warn" | "error", event: string, tags: Record<string, unknown> = {}): void {
  console[level](JSON.stringify({ event, ...tags }));
}

/** A fault's own words, for the log only. */
export const reasonOf = (error: unknown): string =>
  error instanceof Error ? `${error.name}: ${error.message}` : String(error);
