/** What one job may fetch. */
export interface InputLimits {
  /** Different URLs of a job. */
  readonly urls: number;
  /** Of all inputs of a job together, those that the cache already had included. */
  readonly bytes: number;
  /** Downloads of a job at the same time. */
  readonly at_once: number;
  /** For one URL with all that belongs to it: its name's resolution, redirects, headers and body. Milliseconds. */
  readonly each_ms: number;
  /** Followed for one URL. */
  readonly redirects: number;
}

export const INPUT_LIMITS: InputLimits = {
  urls: 32,
  bytes: 1024 ** 3,
  at_once: 4,
  each_ms: 60_000,
  redirects: 5,
};

/** A few jobs of the largest size beside what small ones ask for again and again. */
export const MAX_CACHE_BYTES = 10 * 1024 ** 3;

/** A few hundred bytes each; what no job asked for again among so many others is downloaded anew. */
export const MAX_REMEMBERED_URLS = 10_000;
