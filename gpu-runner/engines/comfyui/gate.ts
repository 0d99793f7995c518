import { cancelPrompt } from "./cancel.ts";
import { Unreachable } from "./client.ts";
import { execute, trialGraph } from "./gate-execution.ts";
import { proveFolder, removeOrphans } from "./gate-folder.ts";
import { Gone, Misconfigured, Refused } from "./gate-refusal.ts";
import { readObjectInfo } from "./object-info.ts";
import type { GateOptions, ReadyServer } from "./ready-server.ts";
import { type Abilities, abilitiesOf } from "./version.ts";
import { isOwnClient } from "./write-graph.ts";

export type Passed =
  | { readonly ok: true; readonly server: ReadyServer }
  /**
   * A sentence for the operator. `gone`: nothing listens there, so what comes back is a new process. `mendable`: a restart may
   * help.
   */
  | { readonly ok: false; readonly reason: string; readonly gone: boolean; readonly mendable: boolean };

/** ComfyUI's own bound, unless it was started with another. */
const DEFAULT_MAX_UPLOAD = 100 * 1024 * 1024;

/** Stops what a process of this runner that was killed, or a run that was given up, still has in the queue. */
async function stopLeftovers({ client, owner, log }: GateOptions, abilities: Abilities): Promise<void> {
  for (const [prompt_id, client_id] of (await client.queue()).clients) {
    if (!isOwnClient(client_id, owner)) continue;
    log(`stopping prompt ${prompt_id}, which nobody waits for any more`);
    await cancelPrompt(client, prompt_id, abilities);
  }
}

async function inspect(options: GateOptions, first: boolean): Promise<ReadyServer> {
  const { client, folder, strip, warmUp, timings } = options;
  const { version, argv, devices } = await client.systemStats();
  if (strip && !argv.includes("--disable-metadata"))
    throw new Misconfigured("pictures are to be without metadata, so it must be started with --disable-metadata");
  const info = readObjectInfo(await client.objectInfo());
  if (!info) throw new Refused("it lists no node classes");
  const max_upload = (await client.maxUpload()) ?? DEFAULT_MAX_UPLOAD;
  const ready: ReadyServer = { version, abilities: abilitiesOf(version), info, devices, max_upload };
  if (folder !== undefined) {
    await proveFolder(client, folder, options.owner);
    await removeOrphans(folder, options.log);
  }
  await stopLeftovers(options, ready.abilities);
  const trial = trialGraph(info);
  if (trial !== undefined) await execute(trial, "a trial picture", ready, timings.trial_ms, options);
  if (first && warmUp !== undefined) await execute(warmUp, "the warm-up workflow", ready, timings.warm_up_ms, options);
  return ready;
}

/**
 * Decides whether a server may be given work: it answers, its classes are known, its folder is the one that was given, its worker
 * executes a trial picture, and after a start of the server the warm-up workflow.
 * @param first the server is new, or has been restarted
 */
export async function passGate(options: GateOptions, first: boolean): Promise<Passed> {
  try {
    return { ok: true, server: await inspect(options, first) };
  } catch (error) {
    if (error instanceof Refused) {
      const mendable = !(error instanceof Misconfigured);
      return { ok: false, reason: error.message, gone: error instanceof Gone, mendable };
    }
    if (!(error instanceof Unreachable)) throw error;
    const { gone, message } = error;
    return {
      ok: false,
      reason: gone ? "nothing listens at its address" : `it does not answer well (${message})`,
      gone,
      mendable: true,
    };
  }
}
