import { readFile } from "node:fs/promises";
import { isLoopbackHost } from "../../../schemas/targets.ts";

/** The loud warning to operators. */
export const SHARED_USER =
  "ComfyUI runs as this runner's own user. A graph that breaks out of it can read the runner's key: run them as two users.";

const LISTENING = "0A";

/** The users whose processes listen on a port of this machine, by `/proc/net/tcp` and its twin. Empty where that can't be read. */
export function listenersOn(port: number, tables: readonly string[]): ReadonlySet<number> {
  const users = new Set<number>();
  for (const line of tables.flatMap((table) => table.split("\n").slice(1))) {
    const [, local = "", , state, , , , user = ""] = line.trim().split(/\s+/);
    const at = Number.parseInt(local.split(":").at(-1) ?? "", 16);
    if (state === LISTENING && at === port) users.add(Number(user));
  }
  return users;
}

/**
 * Whether a server of this machine runs as the runner's own user: then a graph that breaks out of it can read the runner's key.
 * False where it can't be known: another machine, another system.
 */
export async function sharesUser(url: string): Promise<boolean> {
  const { hostname, port, protocol } = new URL(url);
  const own = process.getuid?.();
  if (own === undefined || !isLoopbackHost(hostname.replace(/^\[|\]$/g, ""))) return false;
  const tables = await Promise.all(
    ["/proc/net/tcp", "/proc/net/tcp6"].map((path) => readFile(path, "utf8").catch(() => "")),
  );
  return listenersOn(Number(port || (protocol === "https:" ? 443 : 80)), tables).has(own);
}
