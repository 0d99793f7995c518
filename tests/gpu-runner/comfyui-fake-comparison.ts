import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { isObject, type Json } from "../fakes/comfyui/python-json.ts";
import { startFakeComfyui } from "../fakes/comfyui/server.ts";
import { normal, normalHeaders, type SeenMessage, type World } from "./comfyui-fake-normal.ts";
import {
  countedBefore,
  earlierFiles,
  firstNumber,
  isMessage,
  type Recording,
  readRecording,
  recordedMessage,
} from "./comfyui-fake-recording.ts";
import { comparable, Replay, type ReplayOptions } from "./comfyui-fake-replay.ts";

export interface Seen {
  readonly http: readonly Json[];
  readonly sockets: Readonly<Record<string, readonly SeenMessage[]>>;
}

/** Replays a recording against a fresh fake; both sides come back as they are to be compared. */
export async function replay(
  name: string,
  options: ReplayOptions = {},
): Promise<{ readonly recorded: Seen; readonly fake: Seen }> {
  const recording = readRecording(name);
  const fake = await startFakeComfyui({ gpu: false, ...(options.argv === undefined ? {} : { argv: options.argv }) });
  try {
    for (const file of earlierFiles(recording)) {
      const path = join(fake.folder, "output", file);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, "");
    }
    await options.before?.(fake);
    const counted = fake.requests.filter(({ method, path }) => method === "POST" && path === "/prompt").length;
    for (let n = counted; n < firstNumber(recording) - countedBefore(recording); n++) {
      await fetch(`${fake.url}/prompt`, { method: "POST", body: "[]" });
    }
    const run = new Replay(recording, options, fake);
    await run.run();
    const { world } = run;
    const own: World = { folder: "ComfyUI", names: new Map() };
    const sockets = Object.fromEntries(
      Object.entries(run.messages).map(([client, messages]) => [client, shown(messages, options, world)]),
    );
    return {
      recorded: { http: recordedHttp(recording, options, own), sockets: recordedSockets(recording, options, own) },
      fake: { http: run.http.map((reply) => normal(reply, world)), sockets },
    };
  } finally {
    await fake.close();
  }
}

const shown = (messages: readonly SeenMessage[], options: ReplayOptions, world: World): SeenMessage[] =>
  comparable(messages, options).map(({ type, data }) => ({ type, data: normal(data, world) }));

function recordedHttp({ http }: Recording, { without }: ReplayOptions, world: World): Json[] {
  return http
    .filter((one) => one.outside === undefined && without?.(one) !== true)
    .map((one) => {
      if (one.error !== undefined) return { status: "no answer" };
      const body = isObject(one.response_body) && "binary" in one.response_body ? "bytes" : (one.response_body ?? null);
      const headers = normalHeaders(one.response_headers ?? {}, world);
      return normal({ status: one.status ?? 0, headers, body }, world);
    });
}

function recordedSockets({ ws }: Recording, options: ReplayOptions, world: World): Seen["sockets"] {
  const clients = [...new Set(ws.map(({ client }) => client))];
  return Object.fromEntries(
    clients.map((client) => {
      const messages = ws.flatMap((one): SeenMessage[] => {
        if (one.client !== client) return [];
        if (one.event === "close" && one.how === "CLOSED") return [{ type: "closed", data: one.code ?? null }];
        return isMessage(one) ? [recordedMessage(one)] : [];
      });
      return [client, shown(messages, options, world)];
    }),
  );
}
