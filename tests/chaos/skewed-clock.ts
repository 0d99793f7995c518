import { readFileSync } from "node:fs";

/**
 * Loaded before a runner's own code (`node --import`): its wall clock is ahead by the milliseconds that stand in the file named by
 * CHAOS_CLOCK_FILE. The clock jumps when the file changes, as that of a machine whose time is set. Monotonic time is untouched.
 */
const LOOK_EVERY_MS = 200;
const RealDate = Date;
const file = process.env.CHAOS_CLOCK_FILE;
let ahead_ms = 0;

function look(path: string): void {
  try {
    ahead_ms = Number(readFileSync(path, "utf8")) || 0;
  } catch {
    ahead_ms = 0;
  }
}

class SkewedDate extends RealDate {
  constructor(...given: unknown[]) {
    if (given.length === 0) super(RealDate.now() + ahead_ms);
    else super(...(given as [number]));
  }

  static override now(): number {
    return RealDate.now() + ahead_ms;
  }
}

if (file !== undefined) {
  look(file);
  setInterval(look, LOOK_EVERY_MS, file).unref();
  globalThis.Date = SkewedDate as DateConstructor;
}
