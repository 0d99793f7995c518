import { randomUUID } from "node:crypto";
import type { ClosedClasses } from "../../engine.ts";
import type { Allow } from "./allowed-classes.ts";
import { createClient } from "./client.ts";
import { judgeServer, modelsOf, openClasses, plainDevice } from "./describe-servers.ts";
import { passGate } from "./gate.ts";
import type { ReadyServer } from "./ready-server.ts";
import { SHARED_USER, sharesUser } from "./shared-user.ts";
import { TIMINGS } from "./timings.ts";

export interface CheckOptions {
  readonly servers: readonly { readonly url: string; readonly folder?: string }[];
  readonly allow: Allow;
  readonly strip_metadata: boolean;
  say(line: string): void;
  /** Aborted: what is not looked at yet is left out. */
  readonly signal?: AbortSignal;
}

const GIB = 1024 ** 3;
const SHOWN_NAMES = 8;

const wrapped = (words: readonly string[], indent: string): readonly string[] => {
  const lines: string[] = [];
  for (const word of words) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + word.length < 100) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(`${indent}${word}`);
  }
  return lines;
};

function closedLines({ group, classes, reason, opened_by }: ClosedClasses): readonly string[] {
  const shown = classes.slice(0, SHOWN_NAMES);
  const names = classes.length > shown.length ? [...shown, `and ${classes.length - shown.length} more`] : shown;
  return [
    `    ${group} (${classes.length}): ${reason}`,
    ...wrapped(names.join(", ").split(" "), "      "),
    ...(opened_by === undefined ? [] : [`      to open: ${opened_by}`]),
  ];
}

function readyLines({ version, devices, info }: ReadyServer, allow: Allow): readonly string[] {
  const judged = judgeServer(info, allow);
  const open = openClasses(judged);
  const closed = judged.closed.reduce((sum, { classes }) => sum + classes.length, 0);
  return [
    `  ComfyUI ${version}`,
    ...devices.map(({ name, vram_total }) => `  device ${plainDevice(name)}, ${(vram_total / GIB).toFixed(1)} GiB`),
    `  ${open.size} classes may run, ${modelsOf(info, open).size} model files`,
    ...judged.unknown.map((entry) => `  WARNING: --comfyui-allow names ${entry}, which this server does not have`),
    closed > 0 ? `  ${closed} classes are closed:` : "  no class is closed",
    ...judged.closed.flatMap(closedLines),
  ];
}

/**
 * Looks at servers as the gate does and says what they are, what may run and what not, and how to open it.
 * @returns whether all of them could be given work
 */
export async function checkServers({
  servers,
  allow,
  strip_metadata,
  say,
  signal = new AbortController().signal,
}: CheckOptions): Promise<boolean> {
  let allReady = true;
  for (const { url, folder } of servers) {
    if (signal.aborted) return false;
    say(url);
    const passed = await passGate(
      {
        client: createClient(url),
        // A runner may be at work there: its prompts are nobody's leftovers.
        owner: randomUUID(),
        strip: strip_metadata,
        timings: TIMINGS,
        signal,
        log: (line) => say(`  ${line}`),
        ...(folder === undefined ? {} : { folder }),
      },
      false,
    );
    if (!passed.ok) {
      allReady = false;
      say(`  NOT READY: ${passed.reason}`);
      continue;
    }
    say("  ready: it executed a trial picture");
    if (folder === undefined)
      say("  files of jobs are emptied, not removed: give its folder with --comfyui-folders to have them removed");
    if (await sharesUser(url)) say(`  WARNING: ${SHARED_USER}`);
    for (const line of readyLines(passed.server, allow)) say(line);
  }
  return allReady;
}
