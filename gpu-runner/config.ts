import { hostname } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { checkTarget, isLoopbackHost } from "../schemas/targets.ts";
import { COMFYUI_OPTIONS, COMFYUI_USAGE, type ComfyuiConfig, parseComfyui } from "./config-comfyui.ts";

/** What an operator decides. */
export interface RunnerConfig {
  /** The service's base URL, without a slash at its end. */
  readonly edge: string;
  /** Where the edge reaches this runner, without a slash at its end. */
  readonly url: string;
  readonly listen: { readonly host: string; readonly port: number };
  /** One-time, for a runner that is not enrolled yet. */
  readonly token?: string;
  readonly name: string;
  readonly seats: number;
  /** Absolute path: identity and scratch lie there. */
  readonly data: string;
  /** Absolute path of the files that a graph may load by name. */
  readonly inputs: string;
  readonly grace_ms: number;
  /** The engine; without it the embedded one executes the graphs. */
  readonly comfyui?: ComfyuiConfig;
  /** Local development only: graphs may name files on loopback hosts. */
  readonly loopback_inputs?: true;
}

export type ParsedConfig =
  | { readonly kind: "run"; readonly config: RunnerConfig }
  | { readonly kind: "check"; readonly comfyui: ComfyuiConfig }
  | { readonly kind: "help" | "version" }
  /** One line for each mistake. None quotes the token. */
  | { readonly kind: "wrong"; readonly mistakes: readonly string[] };

export const USAGE = `Usage: darkroom-runner --edge URL --url URL [options]

  --edge URL          the service's base URL                                  (DARKROOM_EDGE)
  --url URL           where the service reaches this runner                   (DARKROOM_RUNNER_URL)
  --token TOKEN       one-time enrolment token, needed once                   (DARKROOM_ENROL_TOKEN)
  --listen HOST:PORT  what to listen on                                       default 0.0.0.0:8090
  --name NAME         as operators see it                                     default: the host's name
  --seats N           executions at once, 1 to 64       default 1, or one for each ComfyUI server
  --data FOLDER       identity and scratch                                    default ./.darkroom-runner
  --inputs FOLDER     files that a graph may load by name                     default <data>/inputs
  --grace SECONDS     how long running jobs may go on after SIGTERM, 0-3600   default 60
  --loopback-inputs   with a service on this machine: inputs may come from it, too
  --help, --version

${COMFYUI_USAGE}`;

const OPTIONS = {
  edge: { type: "string" },
  url: { type: "string" },
  token: { type: "string" },
  listen: { type: "string", default: "0.0.0.0:8090" },
  name: { type: "string" },
  seats: { type: "string" },
  data: { type: "string", default: "./.darkroom-runner" },
  inputs: { type: "string" },
  grace: { type: "string", default: "60" },
  "loopback-inputs": { type: "boolean", default: false },
  check: { type: "boolean", default: false },
  ...COMFYUI_OPTIONS,
  help: { type: "boolean", default: false },
  version: { type: "boolean", default: false },
} as const;

function parseArguments(args: readonly string[]) {
  try {
    return {
      ok: true,
      values: parseArgs({ args: [...args], options: OPTIONS, allowPositionals: false }).values,
    } as const;
  } catch (error) {
    return { ok: false, mistake: error instanceof Error ? error.message : String(error) } as const;
  }
}

/** A base URL: absolute, without query, fragment or user; its own spelling less the slash at its end. */
function baseUrl(text: string, judge: (url: URL) => string | undefined): { url: string } | { rule: string } {
  if (!URL.canParse(text)) return { rule: "it must be an absolute URL" };
  const url = new URL(text);
  if (url.search !== "" || url.hash !== "" || url.username !== "" || url.password !== "")
    return { rule: "it must have no query, fragment or user" };
  const rule = judge(url);
  return rule === undefined ? { url: `${url.origin}${url.pathname}`.replace(/\/+$/, "") } : { rule };
}

const edgeRule = (url: URL): string | undefined =>
  url.protocol === "https:" || (url.protocol === "http:" && isLoopbackHost(url.hostname))
    ? undefined
    : "it must use https";

function runnerRule(url: URL): string | undefined {
  const check = checkTarget(url.href, { ownHosts: [], loopback: true });
  return check.ok ? undefined : check.rule;
}

function integer(text: string, least: number, most: number): number | undefined {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  return value >= least && value <= most ? value : undefined;
}

function address(text: string): RunnerConfig["listen"] | undefined {
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = integer(match?.[3] ?? "", 0, 65_535);
  return host !== undefined && port !== undefined ? { host, port } : undefined;
}

/** Reads flags, and the environment where a flag is absent. An empty variable counts as absent. */
export function parseConfig(args: readonly string[], env: Readonly<Record<string, string | undefined>>): ParsedConfig {
  const parsed = parseArguments(args);
  if (!parsed.ok) return { kind: "wrong", mistakes: [parsed.mistake] };
  const { values } = parsed;
  if (values.help) return { kind: "help" };
  if (values.version) return { kind: "version" };

  const mistakes: string[] = [];
  const wrong = (mistake: string): undefined => {
    mistakes.push(mistake);
  };
  const readUrl = (
    flag: string,
    variable: string,
    given: string | undefined,
    judge: (url: URL) => string | undefined,
  ) => {
    const text = given ?? env[variable];
    if (!text) return wrong(`${flag} (or ${variable}) is missing`);
    const read = baseUrl(text, judge);
    return "url" in read ? read.url : wrong(`${flag} is not usable: ${read.rule}`);
  };
  const comfyui = parseComfyui(values, env, wrong);
  if (values.check) {
    if (!comfyui && mistakes.length === 0) wrong("--check needs --comfyui (or COMFYUI_URLS)");
    return comfyui && mistakes.length === 0 ? { kind: "check", comfyui } : { kind: "wrong", mistakes };
  }
  const edge = readUrl("--edge", "DARKROOM_EDGE", values.edge, edgeRule);
  const url = readUrl("--url", "DARKROOM_RUNNER_URL", values.url, runnerRule);
  const listen = address(values.listen) ?? wrong("--listen must be host:port, as in 0.0.0.0:8090 or [::]:8090");
  const most = comfyui?.servers.length ?? 64;
  const seats = integer(values.seats ?? String(comfyui?.servers.length ?? 1), 1, most);
  if (seats === undefined)
    wrong(`--seats must be a whole number from 1 to ${most}${comfyui ? ", the number of ComfyUI servers" : ""}`);
  const grace = integer(values.grace, 0, 3600) ?? wrong("--grace must be a whole number of seconds from 0 to 3600");
  const name = values.name ?? hostname().slice(0, 100);
  if (name.length < 1 || name.length > 100) wrong("--name must have 1 to 100 characters");
  const token = values.token ?? env.DARKROOM_ENROL_TOKEN;
  if (token && !/^dre_[a-z0-9_-]+_[A-Za-z0-9_-]{43}$/.test(token)) wrong("--token is not an enrolment token (dre_...)");
  if (values.data === "") wrong("--data must name a folder");
  const loopback_inputs = values["loopback-inputs"];
  if (loopback_inputs && edge && !isLoopbackHost(new URL(edge).hostname))
    wrong("--loopback-inputs is for a service on this machine only");

  if (mistakes.length > 0 || !edge || !url || !listen || seats === undefined || grace === undefined)
    return { kind: "wrong", mistakes };
  const data = resolve(values.data);
  return {
    kind: "run",
    config: {
      edge,
      url,
      listen,
      ...(token ? { token } : {}),
      name,
      seats,
      data,
      inputs: values.inputs ? resolve(values.inputs) : join(data, "inputs"),
      grace_ms: grace * 1000,
      ...(comfyui ? { comfyui } : {}),
      ...(loopback_inputs ? { loopback_inputs } : {}),
    },
  };
}
