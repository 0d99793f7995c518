import { reasonOf } from "../../log.ts";
import { jittered, pause, unlessAborted, within } from "../../pause.ts";
import { Bell } from "./bell.ts";
import { cancelPrompt } from "./cancel.ts";
import { clean, type Leftovers } from "./cleaning.ts";
import { type Client, createClient, Unreachable } from "./client.ts";
import { passGate } from "./gate.ts";
import type { ReadyServer } from "./ready-server.ts";
import { SHARED_USER, sharesUser } from "./shared-user.ts";
import { readObjectInfo } from "./object-info.ts";
import type { Timings } from "./timings.ts";

/** For a trial of the gate to be taken back. */
const CLOSE_MS = 3_000;

/** Something that can start a server again: the process that the runner watches, or a command of the operator's. */
export interface Restarter {
  /** Resolves when the old process is gone, as far as this can be known. Never rejects. */
  restart(reason: string): Promise<void>;
}

export interface ServerOptions {
  readonly url: string;
  /** Names the runner in the client ids of its prompts, over its restarts. */
  readonly owner: string;
  readonly folder?: string;
  readonly strip: boolean;
  readonly warmUp?: string;
  readonly restarter?: Restarter;
  readonly timings: Timings;
  log(line: string): void;
  warn(line: string): void;
  /** It became ready, busy, idle or unfit, or what it can do has changed. */
  changed(): void;
}

/** What a run made of the server that it had. */
export type Verdict =
  | "fit"
  /** It goes through the gate again before its next run. */
  | "doubtful"
  /** It still works on something that nobody wants, or has gone: it is restarted where that is possible. */
  | "stuck";

/** How a run gives its server back. */
export interface Returned {
  readonly verdict: Verdict;
  /** For the operator, where the server is not fit. */
  readonly reason?: string;
  /** What the run could not remove yet, because the server still works on it or does not answer. */
  readonly left?: Leftovers;
}

/**
 * One ComfyUI server, which executes one run at a time. It passes the gate before it is given work, is looked at while it idles,
 * and goes back to the gate after every fault.
 */
export class Server {
  readonly url: string;
  readonly client: Client;
  readonly folder: string | undefined;
  readonly #options: ServerOptions;
  readonly #closing = new AbortController();
  readonly #bell = new Bell();
  readonly #loop: Promise<void>;
  #ready: ReadyServer | undefined;
  #last: ReadyServer | undefined;
  #busy = false;
  #restarting: Promise<void> | undefined;
  #closed: Promise<void> | undefined;
  #isNew = true;
  #left: Leftovers[] = [];
  /** When its classes and models were last read. */
  #listedAt = Number.NEGATIVE_INFINITY;

  constructor(options: ServerOptions) {
    this.#options = options;
    this.url = options.url;
    this.folder = options.folder;
    this.client = createClient(options.url);
    this.#loop = this.#live();
  }

  /** What it can do, while it is fit for work. */
  get ready(): ReadyServer | undefined {
    return this.#ready;
  }

  /** What it could do when it was last fit. */
  get known(): ReadyServer | undefined {
    return this.#last;
  }

  get isIdle(): boolean {
    return this.#ready !== undefined && !this.#busy;
  }

  /** Takes it for one run. The caller has seen that it is idle. */
  take(): ReadyServer {
    const ready = this.#ready;
    if (!ready || this.#busy) throw new Error("a server was taken that is not idle");
    this.#busy = true;
    this.#options.changed();
    return ready;
  }

  /** Ends a run's hold on it. With `stuck` it resolves when the server was told to restart, where it can be. */
  async giveBack({ verdict, reason = "", left }: Returned): Promise<void> {
    if (left) this.#left.push(left);
    if (verdict !== "fit") {
      this.#ready = undefined;
      this.#options.warn(`${this.url} is out of service: ${reason}`);
      // Its seat is gone from now on, however long a restart takes.
      this.#options.changed();
    }
    if (verdict === "stuck") await this.#restart(reason);
    this.#busy = false;
    this.#bell.ring();
    this.#options.changed();
  }

  /** Ends its watch. A server that hangs in the gate is not waited for. Idempotent. */
  close(): Promise<void> {
    this.#closing.abort();
    this.#bell.ring();
    this.#closed ??= within(CLOSE_MS, Promise.all([this.#loop, this.#restarting]));
    return this.#closed;
  }

  #restart(reason: string): Promise<void> {
    const { restarter } = this.#options;
    if (!restarter || this.#closing.signal.aborted) return Promise.resolve();
    this.#restarting ??= restarter.restart(reason).finally(() => {
      this.#restarting = undefined;
      this.#isNew = true;
    });
    return this.#restarting;
  }

  /** Until it is closed: through the gate, then a look now and then. */
  async #live(): Promise<void> {
    const { signal } = this.#closing;
    const { timings, warn } = this.#options;
    while (!signal.aborted) {
      try {
        if (this.#ready) await this.#watch();
        else if (!this.#busy) await this.#enter();
        else await this.#bell.sleep(timings.idle_check_ms);
      } catch (error) {
        warn(`${this.url}: fault of its watch: ${reasonOf(error)}`);
        await pause(timings.gate_retry_ms[1], signal);
      }
    }
  }

  async #enter(): Promise<void> {
    const { signal } = this.#closing;
    const { owner, folder, strip, warmUp, timings, log, warn, changed } = this.#options;
    const [first, most] = timings.gate_retry_ms;
    let said: string | undefined;
    let gone = false;
    let failing = performance.now();
    for (let wait = first; !signal.aborted; wait = Math.min(wait * 2, most)) {
      const passed = await passGate(
        {
          client: this.client,
          owner,
          strip,
          timings,
          signal,
          log: (line) => log(`${this.url}: ${line}`),
          ...(folder === undefined ? {} : { folder }),
          ...(warmUp === undefined ? {} : { warmUp }),
        },
        this.#isNew,
      );
      if (signal.aborted) return;
      if (passed.ok) {
        if (this.#last === undefined && (await sharesUser(this.url))) warn(`${this.url}: WARNING: ${SHARED_USER}`);
        this.#isNew = false;
        await this.#cleanUp(passed.server);
        this.#ready = passed.server;
        this.#last = passed.server;
        this.#listedAt = performance.now();
        log(
          `${this.url} is ready: ComfyUI ${passed.server.version}, ${passed.server.info.size} node classes installed`,
        );
        changed();
        return;
      }
      if (passed.reason !== said) warn(`${this.url} is not ready: ${passed.reason}; trying on`);
      said = passed.reason;
      this.#isNew ||= passed.gone;
      // While nothing listens it may be starting, which takes minutes where it has many custom nodes.
      if (passed.gone !== gone) failing = performance.now();
      gone = passed.gone;
      const patience_ms = gone ? timings.warm_up_ms : timings.restart_after_ms;
      if (!passed.mendable) failing = performance.now();
      if (this.#options.restarter && performance.now() - failing > patience_ms) {
        await this.#restart(`it did not become ready in ${patience_ms / 1000} s: ${passed.reason}`);
        failing = performance.now();
        wait = first;
      }
      await pause(jittered(wait), signal);
    }
  }

  /** Removes what earlier runs had to leave. */
  async #cleanUp({ abilities }: ReadyServer): Promise<void> {
    const { client, folder } = this;
    const { warn } = this.#options;
    for (const left of this.#left.splice(0)) {
      if (left.prompt_id !== undefined) await cancelPrompt(client, left.prompt_id, abilities).catch(() => {});
      await clean(client, folder, left, (problem, cause) => warn(`${this.url}: ${problem}: ${reasonOf(cause)}`));
    }
  }

  /** Rejects where it does not answer. Models that were added meanwhile are told, now and then. */
  async #look(): Promise<void> {
    const { timings, changed } = this.#options;
    await this.client.systemStats();
    if (performance.now() - this.#listedAt < timings.list_ms) return;
    const info = readObjectInfo(await this.client.objectInfo());
    this.#listedAt = performance.now();
    if (!info || !this.#ready) return;
    // A run that began meanwhile goes on with the list that it was planned by.
    this.#ready = { ...this.#ready, info };
    this.#last = this.#ready;
    changed();
  }

  /** While it idles: does it answer? A run finds out by itself. */
  async #watch(): Promise<void> {
    const { timings, warn, changed } = this.#options;
    await this.#bell.sleep(timings.idle_check_ms);
    if (this.#busy || !this.#ready || this.#closing.signal.aborted) return;
    try {
      await unlessAborted(this.#look(), this.#closing.signal);
    } catch (error) {
      if (this.#busy || !this.#ready) return;
      this.#ready = undefined;
      this.#isNew ||= error instanceof Unreachable && error.gone;
      warn(`${this.url} is out of service: ${reasonOf(error)}`);
      changed();
    }
  }
}
