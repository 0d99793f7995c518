import * as v from "valibot";

/** UUID version 7 in lower case: a job's public name (contract section 1). */
export const JobId = v.pipe(
  v.string(),
  v.regex(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
);
export const AccountId = v.pipe(v.string(), v.regex(/^acc_[0-9a-z]{20}$/));
export const RunnerId = v.pipe(v.string(), v.regex(/^rnr_[0-9a-z]{20}$/));
/** A region or a kind of machine; one fleet object each. */
export const PoolName = v.pipe(v.string(), v.regex(/^[a-z][a-z0-9-]{0,31}$/));

/** The fleet that every account and enrolment token belongs to unless told otherwise. */
export const DEFAULT_POOL = "default";

const ALPHABET = "0123456789abcdefghijklmnopqrstuv";

/** 20 characters of 5 random bits each. `random` is 20 bytes of a cryptographic source. */
function letters(random: Uint8Array): string {
  let text = "";
  for (const byte of random.subarray(0, 20)) text += ALPHABET[byte & 31];
  return text;
}

export const accountId = (random: Uint8Array): string => `acc_${letters(random)}`;
export const runnerId = (random: Uint8Array): string => `rnr_${letters(random)}`;
