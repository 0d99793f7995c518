import { lookup } from "node:dns/promises";
import { join } from "node:path";
import { clearScratch } from "../spool.ts";
import type { Resolve } from "./connect.ts";
import { fetchInputs } from "./fetch-inputs.ts";
import { openFileCache } from "./file-cache.ts";
import type { Inputs } from "./inputs.ts";
import { INPUT_LIMITS, type InputLimits, MAX_CACHE_BYTES, MAX_REMEMBERED_URLS } from "./limits.ts";
import { createRememberedUrls } from "./remembered-urls.ts";

export interface InputsOptions {
  /** Of one process alone; made where it is missing. */
  readonly folder: string;
  /** What the files in it may have together, those in use and in the making aside. */
  readonly max_cache_bytes?: number;
  /** Local development only: `http:` and any port on loopback hosts, as `TargetRules.loopback`. */
  readonly loopback?: boolean;
  /** Hosts of the service itself, as `TargetRules.ownHosts`. */
  readonly ownHosts?: readonly string[];
  readonly limits?: Partial<InputLimits>;
  /** For tests: in place of the system's resolver. */
  readonly resolve?: Resolve;
  /** For tests: certificates to trust in place of the well-known ones, PEM. */
  readonly ca?: string;
  /** Milliseconds since 1970; orders what is removed first. */
  readonly now?: () => number;
}

/**
 * Fetches customers' files (spec section 4.1: a URL is called under the rules of `checkTarget`, on every redirect and on the address
 * that the socket has reached). Content lies in `<folder>/<two digits>/<sha256>`, what is known of URLs in `<folder>/urls`, files in
 * the making in `<folder>/tmp`, which is emptied. Rejects where the folder can't be used.
 */
export async function createInputs(options: InputsOptions): Promise<Inputs> {
  const { folder, max_cache_bytes = MAX_CACHE_BYTES, ca, now = Date.now } = options;
  const limits: InputLimits = { ...INPUT_LIMITS, ...options.limits };
  const rules = { ownHosts: options.ownHosts ?? [], loopback: options.loopback ?? false };
  const resolve = options.resolve ?? ((hostname) => lookup(hostname, { all: true }));
  const dialling = { resolve, ...(ca === undefined ? {} : { ca }) };
  const scratch = join(folder, "tmp");
  await clearScratch(scratch);
  const content = await openFileCache({ folder, scratch, most: max_cache_bytes, now });
  const urls = join(folder, "urls");
  const remembered = createRememberedUrls(
    await openFileCache({ folder: urls, scratch, most: MAX_REMEMBERED_URLS, weigh: () => 1, now }),
  );

  const fetching = { limits, rules, dialling, content, remembered };
  return { fetch: (wanted, signal) => fetchInputs(wanted, signal, fetching) };
}
