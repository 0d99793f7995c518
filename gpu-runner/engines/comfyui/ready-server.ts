import type { Client, Device } from "./client.ts";
import type { ObjectInfo } from "./object-info.ts";
import type { Timings } from "./timings.ts";
import type { Abilities } from "./version.ts";

/** What a server showed when it passed the gate. */
export interface ReadyServer {
  readonly version: string;
  readonly abilities: Abilities;
  readonly info: ObjectInfo;
  readonly devices: readonly Device[];
  /** Bytes that one upload may have. */
  readonly max_upload: number;
}

/** How a server is looked at before it is given work. */
export interface GateOptions {
  readonly client: Client;
  /** Names the runner in the client ids of its prompts, over its restarts. */
  readonly owner: string;
  /** The folder that holds the server's `input`, `output` and `temp`, where the runner may reach it. */
  readonly folder?: string;
  /** Pictures must not tell their workflow: the server must run with `--disable-metadata`. */
  readonly strip: boolean;
  /** A workflow to run before any customer's, as JSON text: it loads models. Only after a start of the server. */
  readonly warmUp?: string;
  readonly timings: Timings;
  readonly signal: AbortSignal;
  log(line: string): void;
}
