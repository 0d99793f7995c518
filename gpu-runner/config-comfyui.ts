import { resolve } from "node:path";
import { type Allow, parseAllow } from "./engines/comfyui/allowed-classes.ts";

/** One ComfyUI server of this runner. */
export interface ComfyuiServerConfig {
  /** Base URL without a slash at its end. */
  readonly url: string;
  /** Absolute path of the folder that holds its `input`, `output` and `temp`. */
  readonly folder?: string;
}

/** What an operator decides about ComfyUI. */
export interface ComfyuiConfig {
  readonly servers: readonly ComfyuiServerConfig[];
  readonly allow: Allow;
  /** Starts a server, which the runner then watches. Never together with `restart`. */
  readonly command?: string;
  /** Restarts a server that somebody else watches. */
  readonly restart?: string;
  /** Absolute path of a workflow in the API format. */
  readonly warm_up?: string;
  /** Silence after which a run counts as stalled. */
  readonly stall_ms: number;
  readonly strip_metadata: boolean;
  readonly input_cache_bytes: number;
}

/** As many as one enrolment may have seats. */
const MAX_SERVERS = 64;
const GIB = 1024 ** 3;

export const COMFYUI_USAGE = `  With ComfyUI (docs/comfyui.md):
  --comfyui URLS            servers, comma-separated; each gives one seat       (COMFYUI_URLS)
  --comfyui-folders PATHS   where each has input, output and temp, or one path  (COMFYUI_FOLDERS)
                            for all; without it files are emptied, not removed
  --comfyui-allow LIST      classes that may run: core, api, packs, class:NAME, *  (COMFYUI_ALLOW), default core
  --comfyui-command LINE    starts a server, which is then watched              (COMFYUI_COMMAND)
  --comfyui-restart LINE    restarts a server that others watch                 (COMFYUI_RESTART)
  --comfyui-warm-up FILE    workflow that a server runs after its start         (COMFYUI_WARM_UP)
  --comfyui-stall SECONDS   silence after which a run is stalled, 10 to 3600    (COMFYUI_STALL), default 120
  --strip-metadata          keep workflows out of pictures                      (COMFYUI_STRIP_METADATA=1)
  --input-cache GIB         disk for input files that may come again, 1-10000   (COMFYUI_INPUT_CACHE), default 10
  --check                   say what the servers are and what may run, and end
`;

export const COMFYUI_OPTIONS = {
  comfyui: { type: "string" },
  "comfyui-folders": { type: "string" },
  "comfyui-allow": { type: "string" },
  "comfyui-command": { type: "string" },
  "comfyui-restart": { type: "string" },
  "comfyui-warm-up": { type: "string" },
  "comfyui-stall": { type: "string" },
  "strip-metadata": { type: "boolean" },
  "input-cache": { type: "string" },
} as const;

type Given = { readonly [name in keyof typeof COMFYUI_OPTIONS]?: string | boolean | undefined };

const VARIABLES = {
  comfyui: "COMFYUI_URLS",
  "comfyui-folders": "COMFYUI_FOLDERS",
  "comfyui-allow": "COMFYUI_ALLOW",
  "comfyui-command": "COMFYUI_COMMAND",
  "comfyui-restart": "COMFYUI_RESTART",
  "comfyui-warm-up": "COMFYUI_WARM_UP",
  "comfyui-stall": "COMFYUI_STALL",
  "input-cache": "COMFYUI_INPUT_CACHE",
} as const;

const listOf = (text: string): readonly string[] =>
  text
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one !== "");

function readServer(text: string): { readonly url: string } | { readonly mistake: string } {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && (url.username !== "" || url.password !== ""))
    return { mistake: `the URL of a server has no user and no password (${url.host})` };
  if (url === undefined || url.search !== "" || url.hash !== "" || !/^https?:$/.test(url.protocol))
    return { mistake: `${JSON.stringify(text)} is not the URL of a server, such as http://127.0.0.1:8188` };
  return { url: `${url.origin}${url.pathname}`.replace(/\/+$/, "") };
}

/**
 * Reads what concerns ComfyUI; undefined where no server is given. Flags win over the environment; an empty variable counts as absent.
 * @param wrong told each mistake, in a line
 */
export function parseComfyui(
  given: Given,
  env: Readonly<Record<string, string | undefined>>,
  wrong: (mistake: string) => void,
): ComfyuiConfig | undefined {
  let mistakes = 0;
  const tell = (mistake: string): void => {
    mistakes++;
    wrong(mistake);
  };
  const read = (name: keyof typeof VARIABLES): string | undefined => {
    const value = given[name];
    return (typeof value === "string" ? value : env[VARIABLES[name]]) || undefined;
  };
  const between = (name: "comfyui-stall" | "input-cache", standard: number, least: number, most: number): number => {
    const text = read(name);
    const value = text === undefined ? standard : /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
    if (!Number.isInteger(value) || value < least || value > most)
      tell(`--${name} must be a whole number from ${least} to ${most}`);
    return value;
  };
  const urls = listOf(read("comfyui") ?? "");
  if (urls.length === 0) {
    for (const name of Object.keys(COMFYUI_OPTIONS) as (keyof Given)[])
      if (given[name] !== undefined && name !== "comfyui")
        tell(`--${name} is of no use without --comfyui (or COMFYUI_URLS)`);
    if (given.comfyui !== undefined) tell("--comfyui names no server");
    return undefined;
  }
  if (urls.length > MAX_SERVERS) tell(`--comfyui names ${urls.length} servers; a runner has at most ${MAX_SERVERS}`);
  const folders = listOf(read("comfyui-folders") ?? "");
  if (folders.length > 1 && folders.length !== urls.length)
    tell(
      `--comfyui-folders names ${folders.length} folders for ${urls.length} servers; give one for each, or one for all`,
    );
  const servers = urls.flatMap((text, n) => {
    const server = readServer(text);
    if ("mistake" in server) {
      tell(`--comfyui: ${server.mistake}`);
      return [];
    }
    const folder = folders.length === 1 ? folders[0] : folders[n];
    return [{ url: server.url, ...(folder === undefined ? {} : { folder: resolve(folder) }) }];
  });
  if (new Set(servers.map(({ url }) => url)).size < servers.length) tell("--comfyui names a server twice");
  const allowed = parseAllow(read("comfyui-allow") ?? "");
  if (!allowed.ok) tell(`--comfyui-allow is not usable: ${allowed.mistake}`);
  const command = read("comfyui-command");
  const restart = read("comfyui-restart");
  if (command !== undefined && restart !== undefined)
    tell(
      "--comfyui-command and --comfyui-restart exclude each other: either the runner watches the servers, or others do",
    );
  const warmUp = read("comfyui-warm-up");
  const stall = between("comfyui-stall", 120, 10, 3600);
  const cache = between("input-cache", 10, 1, 10_000);
  const strip = env.COMFYUI_STRIP_METADATA || "0";
  if (strip !== "0" && strip !== "1") tell("COMFYUI_STRIP_METADATA must be 1 or 0");
  if (!allowed.ok || mistakes > 0) return undefined;
  return {
    servers,
    allow: allowed.allow,
    ...(command === undefined ? {} : { command }),
    ...(restart === undefined ? {} : { restart }),
    ...(warmUp === undefined ? {} : { warm_up: resolve(warmUp) }),
    stall_ms: stall * 1000,
    strip_metadata: given["strip-metadata"] === true || strip === "1",
    input_cache_bytes: cache * GIB,
  };
}
