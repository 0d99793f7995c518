import { runDurableObjectAlarm } from "cloudflare:test";
import { vi } from "vitest";
import { accountObject, type TestAccount } from "../worker/service.ts";

/** Worker, objects and tests share this isolate's clock: what the test adds to it is what they see. */

const now = Date.now;
let ahead_ms = 0;

export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** Lets time pass at once. Alarms are fired by `fire`: the platform's own timers keep the real time. */
export function pass(ms: number): void {
  ahead_ms += ms;
  vi.spyOn(Date, "now").mockImplementation(() => now() + ahead_ms);
}

/** Back to the real time. */
export function resetClock(): void {
  ahead_ms = 0;
  vi.spyOn(Date, "now").mockImplementation(now);
}

/** Fires the account's alarm, as the platform does when it is due. */
export const fire = (account: Pick<TestAccount, "account_id">): Promise<boolean> =>
  runDurableObjectAlarm(accountObject(account));
