import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { writePrivate } from "./state.ts";

/**
 * One start at a time owns the folder. A parent that was killed alone leaves its children behind, which would go on writing to the
 * same databases: the next start finds them by the file and ends them.
 */
interface Owner {
  readonly pid: number;
  readonly children: readonly number[];
}

const ownerPath = (folder: string): string => join(folder, "owner.json");

async function commandOf(pid: number): Promise<string | undefined> {
  try {
    return (await readFile(`/proc/${pid}/cmdline`, "utf8")).replaceAll("\0", " ");
  } catch {
    return undefined;
  }
}

/** Whether a process is one of ours: a start, a runner or the Worker's runtime. */
const isOurs = (command: string | undefined): boolean =>
  command !== undefined && /scripts\/|gpu-runner|workerd/.test(command);

/** The processes that this one has started, where the system tells. */
export async function childrenOf(pid: number): Promise<number[]> {
  try {
    const tasks = await readdir(`/proc/${pid}/task`);
    const lists = await Promise.all(
      tasks.map((task) => readFile(`/proc/${pid}/task/${task}/children`, "utf8").catch(() => "")),
    );
    return lists.join(" ").split(" ").filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

async function readOwner(folder: string): Promise<Owner | undefined> {
  try {
    return JSON.parse(await readFile(ownerPath(folder), "utf8")) as Owner;
  } catch {
    return undefined;
  }
}

/** Whether a start that is alive owns the folder. */
export async function isOwned(folder: string): Promise<boolean> {
  const owner = await readOwner(folder);
  return owner !== undefined && owner.pid !== process.pid && isOurs(await commandOf(owner.pid));
}

/** Ends what a dead start left behind. Returns how many processes that were. */
export async function endLeftovers(folder: string): Promise<number> {
  const owner = await readOwner(folder);
  let ended = 0;
  for (const pid of owner?.children ?? []) {
    if (!isOurs(await commandOf(pid))) continue;
    process.kill(pid, "SIGKILL");
    ended++;
  }
  return ended;
}

/** Writes down who owns the folder and what it has started by now. */
export async function recordOwner(folder: string): Promise<void> {
  const owner: Owner = { pid: process.pid, children: await childrenOf(process.pid) };
  await writePrivate(ownerPath(folder), owner);
}

export const forgetOwner = (folder: string): Promise<void> => rm(ownerPath(folder), { force: true });
