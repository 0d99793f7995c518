import { randomUUID } from "node:crypto";
import type { EngineFailure, EngineProgress, EngineResult, RunOptions } from "../../engine.ts";
import type { Inputs } from "../../inputs/inputs.ts";
import { reasonOf } from "../../log.ts";
import { pause } from "../../pause.ts";
import { Bell } from "./bell.ts";
import { type Client, type HistoryEntry, Unreachable } from "./client.ts";
import { executionFailure, logLinesOf, validationFailure } from "./failures.ts";
import { type Ending, follow } from "./follow.ts";
import { freeMemory } from "./free-memory.ts";
import type { ReadyServer } from "./ready-server.ts";
import { giveInputs, type InputSite } from "./give-inputs.ts";
import type { Message } from "./messages.ts";
import { outputsOf } from "./outputs.ts";
import { type GraphPlan, planGraph } from "./plan.ts";
import { RunProgress } from "./progress.ts";
import { RunTraces } from "./run-traces.ts";
import type { Returned, Verdict } from "./server.ts";
import { openSocket } from "./socket.ts";
import type { Timings } from "./timings.ts";
import { clientId, writeGraph } from "./write-graph.ts";

/** Where a run happens, and what it needs. */
export interface RunSite {
  readonly client: Client;
  readonly ready: ReadyServer;
  /** Names the runner in the client ids of its prompts, over its restarts. */
  readonly owner: string;
  /** The folder that holds the server's `input`, `output` and `temp`, where the runner may reach it. */
  readonly folder: string | undefined;
  /** The classes that may run. */
  readonly open: ReadonlySet<string>;
  readonly inputs: Inputs;
  readonly strip: boolean;
  readonly timings: Timings;
  warn(line: string): void;
}

/** A run's result, and what it made of its server. */
export interface RunEnd extends Returned {
  readonly result: EngineResult;
}

const PREVIEW_EVERY_MS = 500;

/** One execution on a server that is this run's alone. */
class ComfyRun {
  readonly #site: RunSite;
  readonly #options: RunOptions;
  readonly #plan: GraphPlan;
  readonly #traces: RunTraces;
  readonly #bell = new Bell();
  #prompt_id: string = randomUUID();
  #heard = performance.now();
  #previewAt = Number.NEGATIVE_INFINITY;
  #download_ms = 0;
  #startedAt: number | undefined;
  #isHeard = false;
  #settled = false;

  constructor(site: RunSite, plan: GraphPlan, options: RunOptions) {
    this.#site = site;
    this.#plan = plan;
    this.#options = options;
    this.#traces = new RunTraces(site, plan);
  }

  get #execution_ms(): number {
    return this.#startedAt === undefined ? 0 : performance.now() - this.#startedAt;
  }

  async perform(): Promise<RunEnd> {
    try {
      if (this.#options.signal.aborted) return this.#interrupted();
      const given = await this.#giveInputs();
      if (given.how === "failed") return await this.#ended(this.#failed(given.error));
      if (given.how === "aborted") return await this.#ended(this.#interrupted());
      this.#download_ms = given.download_ms;
      return await this.#execute(given.files);
    } catch (error) {
      if (!(error instanceof Unreachable)) {
        await this.#traces.remove();
        throw error;
      }
      const { aborted } = this.#options.signal;
      const reason = reasonOf(error);
      return this.#abandoned(aborted ? this.#interrupted("doubtful", reason) : this.#crashed(reason, "doubtful"));
    } finally {
      this.#settled = true;
    }
  }

  #failed(error: EngineFailure, verdict: Verdict = "fit", reason?: string): RunEnd {
    const result = { ok: false, reason: "failed", error, execution_ms: this.#execution_ms } as const;
    return { result, verdict, ...(reason === undefined ? {} : { reason }) };
  }

  #interrupted(verdict: Verdict = "fit", reason?: string): RunEnd {
    const result = { ok: false, reason: "interrupted", execution_ms: this.#execution_ms } as const;
    return { result, verdict, ...(reason === undefined ? {} : { reason }) };
  }

  #crashed(reason: string, verdict: Verdict): RunEnd {
    const message = "The engine that executed the workflow went away.";
    return this.#failed({ code: "engine_crashed", message }, verdict, reason);
  }

  #giveInputs() {
    const { client, inputs, ready } = this.#site;
    const uploading: InputSite["uploading"] = (file, wanted) => this.#traces.uploading(file, wanted);
    return giveInputs(this.#plan, { client, inputs, max_upload: ready.max_upload, uploading }, this.#options.signal);
  }

  async #execute(files: ReadonlyMap<string, string>): Promise<RunEnd> {
    const { client, ready, timings } = this.#site;
    const { signal } = this.#options;
    const classes = new Map([...this.#plan.nodes].map(([id, { class_type }]) => [id, class_type]));
    const progress = new RunProgress(classes);
    const client_id = clientId(this.#site.owner, this.#prompt_id);
    const ring = (): void => this.#bell.ring();
    const socket = openSocket({
      url: client.url,
      client_id,
      message: (message) => this.#hear(message, progress),
      lost: ring,
    });
    signal.addEventListener("abort", ring, { once: true });
    try {
      await Promise.race([socket.opened, pause(timings.socket_ms, signal)]);
      if (signal.aborted) return await this.#ended(this.#interrupted());
      this.#startedAt = performance.now();
      const graph = writeGraph(this.#plan, ready.info, this.#traces.names, files);
      const handed = await this.#submit(graph, client_id);
      if (typeof handed !== "string") return handed;
      const isKnown = handed === "taken";
      const ending = await this.#follow(signal, timings, isKnown ? 0 : timings.lost_submit_ms);
      return await this.#conclude(ending, isKnown);
    } finally {
      signal.removeEventListener("abort", ring);
      await socket.close();
    }
  }

  /** Hands the graph to the server: it has it, or may have it, or the run has ended. */
  async #submit(graph: string, client_id: string): Promise<"taken" | "unknown" | RunEnd> {
    const { client, ready, warn } = this.#site;
    this.#traces.prompt_id = this.#prompt_id;
    try {
      const ids = { prompt_id: this.#prompt_id, client_id };
      const submitted = await client.submit(graph, ids, this.#options.signal);
      if (submitted.ok) {
        this.#prompt_id = submitted.prompt_id;
        this.#traces.prompt_id = submitted.prompt_id;
        if (Object.keys(submitted.node_errors).length === 0) return "taken";
        return await this.#takeBack(validationFailure({ node_errors: submitted.node_errors }, this.#plan, ready.info));
      }
      if (submitted.status === 400)
        return await this.#ended(this.#failed(validationFailure(submitted.body, this.#plan, ready.info)));
      if (submitted.status === 413) {
        const message = "The workflow is larger than the engine takes.";
        return await this.#ended(this.#failed({ code: "invalid_prompt", message }));
      }
      warn(`${client.url} answered a prompt with ${submitted.status}`);
      const message = "The engine could not read the workflow.";
      const end = this.#failed({ code: "internal_error", message }, "doubtful", `it answered ${submitted.status}`);
      return await this.#ended(end);
    } catch (error) {
      // Whether it was taken is seen in the queue, where its id is known.
      if (error instanceof Unreachable && ready.abilities.ownPromptId) return "unknown";
      throw error;
    }
  }

  /** Ends a run of which the server has refused a part and would execute the rest. */
  async #takeBack(error: EngineFailure): Promise<RunEnd> {
    const ending = await this.#follow(AbortSignal.abort(), this.#site.timings);
    if (ending.how === "entry") return this.#ended(this.#failed(error), ending.entry);
    if (ending.how === "vanished" || ending.how === "unreadable") return this.#ended(this.#failed(error));
    const verdict = ending.how === "silent" ? "stuck" : "doubtful";
    return this.#abandoned(this.#failed(error, verdict, "a prompt could not be taken back"));
  }

  #follow(signal: AbortSignal, timings: Timings, absent_ms = 0): Promise<Ending> {
    const { client, ready } = this.#site;
    const heard = () => this.#heard;
    const { abilities } = ready;
    return follow({
      client,
      prompt_id: this.#prompt_id,
      abilities,
      signal,
      bell: this.#bell,
      heard,
      timings,
      absent_ms,
    });
  }

  #hear(message: Message, progress: RunProgress): void {
    if (this.#settled || (message.prompt_id !== undefined && message.prompt_id !== this.#prompt_id)) return;
    this.#heard = performance.now();
    if (message.prompt_id !== undefined) this.#isHeard = true;
    // A prompt without a client, of somebody else, sends its previews to everybody.
    if (message.type === "preview" && !this.#isHeard) return;
    if (message.type === "ending") this.#bell.ring();
    if (this.#options.signal.aborted) return;
    if (message.type === "preview") {
      if (this.#heard - this.#previewAt < PREVIEW_EVERY_MS) return;
      this.#previewAt = this.#heard;
      this.#options.onPreview?.(message.preview);
      return;
    }
    const known: EngineProgress | undefined = progress.after(message);
    if (known) this.#options.onProgress(known);
  }

  /** @param isKnown the server has said that it has the prompt */
  async #conclude(ending: Ending, isKnown: boolean): Promise<RunEnd> {
    const { aborted } = this.#options.signal;
    switch (ending.how) {
      case "entry":
        return this.#concludeEntry(ending.entry);
      case "vanished":
        if (aborted && isKnown) return this.#ended(this.#interrupted());
        if (aborted) return this.#ended(this.#interrupted("doubtful", "it did not answer a prompt"));
        return this.#ended(
          this.#crashed("it no longer knows its prompt: it was restarted, or somebody cleared its queue", "doubtful"),
        );
      case "unreadable": {
        const message = "The texts that the workflow shows are longer than an engine's answer may be.";
        return this.#ended(this.#failed({ code: "outputs_too_large", message }));
      }
      case "gone":
        if (aborted) return this.#abandoned(this.#interrupted("doubtful", "its process is gone"));
        return this.#abandoned(this.#crashed("its process is gone", "doubtful"));
      case "silent":
        return this.#concludeSilent(aborted);
    }
  }

  async #concludeSilent(aborted: boolean): Promise<RunEnd> {
    const { timings } = this.#site;
    const reason = `it showed no life for ${timings.stall_ms / 1000} s`;
    const short = { ...timings, stall_ms: timings.last_stop_ms };
    // It is told to stop, and given a little time: what it does not hear, a restart must end.
    const last = aborted ? undefined : await this.#follow(AbortSignal.abort(), short);
    const stopped = last !== undefined && last.how !== "silent";
    const verdict: Verdict = stopped ? "doubtful" : "stuck";
    const message = `The engine showed no life for ${timings.stall_ms / 1000} s.`;
    const end = aborted
      ? this.#interrupted(verdict, reason)
      : this.#failed({ code: "stalled", message }, verdict, reason);
    return last?.how === "entry" ? this.#ended(end, last.entry) : this.#abandoned(end);
  }

  async #concludeEntry(entry: HistoryEntry): Promise<RunEnd> {
    const { client, strip, timings, warn } = this.#site;
    const execution_ms = this.#execution_ms;
    if (entry.succeeded) {
      const outputs = outputsOf(entry, this.#traces.origin, { client, strip, retry_ms: timings.view_retry_ms });
      if (outputs.length === 0)
        return this.#ended(
          this.#failed({ code: "no_outputs", message: "The workflow ended without an output." }),
          entry,
        );
      const discard = async (): Promise<void> => void (await this.#traces.remove(entry));
      return { result: { ok: true, outputs, execution_ms, download_ms: this.#download_ms, discard }, verdict: "fit" };
    }
    const error = entry.messages.findLast(({ type }) => type === "execution_error");
    if (!error) {
      if (this.#options.signal.aborted) return this.#ended(this.#interrupted(), entry);
      return this.#ended(this.#crashed("somebody interrupted its prompt", "fit"), entry);
    }
    for (const line of logLinesOf(error.data)) warn(`prompt ${this.#prompt_id}: ${line}`);
    const failure = executionFailure(error.data, this.#plan, this.#traces.known);
    if (failure.code !== "out_of_memory") return this.#ended(this.#failed(failure), entry);
    const freed = await freeMemory(client, this.#site.ready.devices, this.#site.timings);
    const [verdict, reason] = freed
      ? (["doubtful", "it ran out of memory"] as const)
      : (["stuck", "it ran out of memory, and did not give it back when it was told to"] as const);
    return this.#ended(this.#failed(failure, verdict, reason), entry);
  }

  /** The end of a run of which nothing is left on the server. */
  async #ended(end: RunEnd, entry?: HistoryEntry): Promise<RunEnd> {
    if (await this.#traces.remove(entry)) return end;
    const reason = end.reason ?? "it did not let the runner clean up";
    return {
      ...end,
      verdict: end.verdict === "fit" ? "doubtful" : end.verdict,
      reason,
      left: this.#traces.leftovers(entry),
    };
  }

  /** The end of a run on a server that does not answer: what it left is removed when the server is back. */
  #abandoned(end: RunEnd): RunEnd {
    return { ...end, left: this.#traces.leftovers() };
  }
}

/** Executes a graph on a server that is this run's alone until this resolves. Rejects for faults of this code only. */
export async function runOn(site: RunSite, prompt: string, options: RunOptions): Promise<RunEnd> {
  const planned = planGraph(prompt, site.ready.info, site.open);
  if (planned.ok) return new ComfyRun(site, planned.plan, options).perform();
  return { result: { ok: false, reason: "failed", error: planned.error, execution_ms: 0 }, verdict: "fit" };
}
