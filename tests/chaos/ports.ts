import { randomInt } from "node:crypto";
import { freePort } from "../../scripts/local/ports.ts";

/** Below what systems give to outgoing connections: nobody takes such a port while its process is dead. */
const LEAST = 20_000;
const MOST = 32_000;
const TRIES = 100;

/** A free port of loopback that a process can have again after each of its deaths. */
export async function lastingPort(): Promise<number> {
  for (let tries = 0; tries < TRIES; tries++) {
    const port = await freePort(randomInt(LEAST, MOST), true, () => {}).catch(() => undefined);
    if (port !== undefined) return port;
  }
  throw new Error(`No free port was found between ${LEAST} and ${MOST}.`);
}
