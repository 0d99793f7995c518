import { env } from "cloudflare:workers";
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { START_GRACE_MS } from "../../worker/fleet/losses.ts";

const stored = (pool: string, change?: number): Promise<number> =>
  runInDurableObject(env.FLEET.getByName(pool), (_, { storage }) => {
    if (change !== undefined) storage.kv.put("grace_until", change);
    return storage.kv.get<number>("grace_until") ?? 0;
  });

it("keeps a grace that lasts over another start of the fleet object, so that starts in a row do not put off all judgement", async () => {
  const until = await stored("grace-lasting");
  const fleet = env.FLEET.getByName("grace-lasting");
  await evictDurableObject(fleet);
  await fleet.status();
  expect(await stored("grace-lasting")).toBe(until);
});

it("begins a new grace where the stored one is over, or lies further ahead than any grace", async () => {
  for (const [name, wrong] of [
    ["grace-over", -60_000],
    ["grace-far", 10 * START_GRACE_MS],
  ] as const) {
    await stored(name, Date.now() + wrong);
    const fleet = env.FLEET.getByName(name);
    await evictDurableObject(fleet);
    const before = Date.now();
    await fleet.status();
    const until = await stored(name);
    expect(until).toBeGreaterThanOrEqual(before + START_GRACE_MS);
    expect(until).toBeLessThanOrEqual(Date.now() + START_GRACE_MS);
  }
});
