import { base64url } from "jose";

/** Spec section 2.2: an 8-character prefix and 43 characters of base64url, 51 in all. */
const LIVE_KEY = /^sk_live_[A-Za-z0-9_-]{43}$/;
const TEST_KEY = /^sk_test_[A-Za-z0-9_-]{43}$/;

/** How many characters of a key people see (spec section 2.2, "Portal display"). */
export const KEY_PREFIX_LENGTH = 12;

export const isLiveKey = (key: string): boolean => LIVE_KEY.test(key);
export const isTestKey = (key: string): boolean => TEST_KEY.test(key);

/** `random` is 32 bytes of a cryptographic source. */
export const apiKey = (random: Uint8Array): string => `sk_live_${base64url.encode(random)}`;
