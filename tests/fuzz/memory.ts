import { readFile } from "node:fs/promises";
import { childrenOf } from "../../scripts/local/processes.ts";

/** Resident memory of the Worker's runtime, MiB: every workerd below this process. 0 where the system does not tell. */
export async function workerdMiB(): Promise<number> {
  let kib = 0;
  const look = async (pid: number): Promise<void> => {
    for (const child of await childrenOf(pid)) {
      const name = await readFile(`/proc/${child}/comm`, "utf8").catch(() => "");
      const status = await readFile(`/proc/${child}/status`, "utf8").catch(() => "");
      if (name.startsWith("workerd")) kib += Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0);
      await look(child);
    }
  };
  await look(process.pid);
  return Math.round(kib / 1024);
}
