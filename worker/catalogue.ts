import * as v from "valibot";
import type { Env } from "./env.ts";
import { log, reasonOf } from "./log.ts";

/**
 * Which node classes some enrolled runner has, as a hint for the check of submissions. Each fleet publishes its union when that
 * changes; isolates read all fleets' at most once a minute. KV may be a minute late too, so a class that a runner has had for
 * five minutes is known everywhere.
 */

const PREFIX = "catalogue:";
const FRESH_MS = 60_000;

const Published = v.array(v.string());

let remembered: { readonly at: number; readonly classes: ReadonlySet<string> | undefined } | undefined;

async function read(kv: KVNamespace): Promise<ReadonlySet<string> | undefined> {
  const { keys } = await kv.list({ prefix: PREFIX });
  const classes = new Set<string>();
  for (const { name } of keys) {
    const published = v.safeParse(Published, await kv.get(name, "json"));
    if (!published.success) return undefined;
    for (const class_type of published.output) classes.add(class_type);
  }
  return classes.size === 0 ? undefined : classes;
}

/** Undefined while the catalogue is unknown: no runner is enrolled, or it can't be read. */
export async function catalogueOf(
  { KEY_CACHE }: Pick<Env, "KEY_CACHE">,
  now: number,
): Promise<ReadonlySet<string> | undefined> {
  if (remembered && now < remembered.at + FRESH_MS) return remembered.classes;
  let classes: ReadonlySet<string> | undefined;
  try {
    classes = await read(KEY_CACHE);
  } catch (error) {
    log("warn", "catalogue_unread", { reason: reasonOf(error) });
  }
  remembered = { at: now, classes };
  return classes;
}

/** Published by the fleet object of `pool`. An empty list means that nothing is known. */
export async function publishCatalogue(
  { KEY_CACHE }: Pick<Env, "KEY_CACHE">,
  pool: string,
  classes: readonly string[],
): Promise<void> {
  if (classes.length === 0) await KEY_CACHE.delete(PREFIX + pool);
  else await KEY_CACHE.put(PREFIX + pool, JSON.stringify(classes));
}
