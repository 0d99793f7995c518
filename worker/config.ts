import * as v from "valibot";
import { PoolName } from "../schemas/ids.ts";
import type { Env } from "./env.ts";

/** The settings of a deployment, parsed once. */
export interface Config {
  /** Absolute, without a trailing slash: the service's own address, never taken from a request. */
  readonly baseUrl: string;
  readonly outputsBaseUrl: string;
  /** Hosts of the service itself, lower case, without port. */
  readonly ownHosts: readonly string[];
  /** Pools that jobs may spill over to, in no order. */
  readonly pools: readonly string[];
}

const parsed = new WeakMap<object, Config>();

function absolute(name: string, value: string): URL {
  if (!URL.canParse(value)) throw new Error(`${name} must be an absolute URL.`);
  return new URL(value);
}

function poolNames(text: string): string[] {
  const names = text.split(",").map((name) => name.trim());
  return names.filter((name) => name !== "").map((name) => v.parse(PoolName, name));
}

/** Throws when a variable is missing or malformed: a deployment with a wrong address must not answer at all. */
export function configOf(env: Pick<Env, "PUBLIC_BASE_URL" | "OUTPUTS_BASE_URL" | "SPILLOVER_POOLS">): Config {
  const known = parsed.get(env);
  if (known) return known;
  const base = absolute("PUBLIC_BASE_URL", env.PUBLIC_BASE_URL);
  const outputs = env.OUTPUTS_BASE_URL === "" ? base : absolute("OUTPUTS_BASE_URL", env.OUTPUTS_BASE_URL);
  const config: Config = {
    baseUrl: base.href.replace(/\/$/, ""),
    outputsBaseUrl: outputs.href.replace(/\/$/, ""),
    ownHosts: [base.hostname, outputs.hostname],
    pools: poolNames(env.SPILLOVER_POOLS),
  };
  parsed.set(env, config);
  return config;
}
