import { pause } from "../../pause.ts";
import { type Client, type Device, Unreachable } from "./client.ts";
import type { Timings } from "./timings.ts";

/** Of what was free when the server was last fit: models that were loaded since then may have left crumbs. */
const ENOUGH = 0.8;
const LOOK_EVERY_MS = 250;

/**
 * Tells a server to drop its models and cached results, and waits until its GPUs have their memory back.
 * @param before the devices as they were when the server had nothing loaded
 * @returns false where the memory does not come back, or the server does not answer: only a restart helps
 */
export async function freeMemory(client: Client, before: readonly Device[], timings: Timings): Promise<boolean> {
  const gpus = before.filter(({ type }) => type !== "cpu");
  const deadline = performance.now() + timings.free_ms;
  try {
    await client.free();
    while (true) {
      const { devices } = await client.systemStats();
      const free = new Map(devices.map((device) => [device.name, device.vram_free]));
      if (gpus.every((gpu) => (free.get(gpu.name) ?? 0) >= ENOUGH * gpu.vram_free)) return true;
      if (performance.now() > deadline) return false;
      await pause(Math.min(LOOK_EVERY_MS, timings.free_ms));
    }
  } catch (error) {
    if (error instanceof Unreachable) return false;
    throw error;
  }
}
