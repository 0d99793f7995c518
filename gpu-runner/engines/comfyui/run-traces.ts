import { randomBytes } from "node:crypto";
import { reasonOf } from "../../log.ts";
import { clean, type Leftovers } from "./cleaning.ts";
import type { Client, HistoryEntry, ServerFile } from "./client.ts";
import type { ReadyServer } from "./ready-server.ts";
import { isCoreModule } from "./object-info.ts";
import { filesIn, type Origin } from "./outputs.ts";
import type { GraphPlan, WantedFile } from "./plan.ts";
import { type RunNames, runNames } from "./write-graph.ts";

export interface TraceSite {
  readonly client: Client;
  readonly ready: ReadyServer;
  /** The folder that holds the server's `input`, `output` and `temp`, where the runner may reach it. */
  readonly folder: string | undefined;
  warn(line: string): void;
}

/** What one run puts on its server, under names of its own, and how that goes again. */
export class RunTraces {
  readonly names: RunNames = runNames(randomBytes(16).toString("hex"));
  /** What these names stand for, in messages to the author of the graph. */
  readonly known = new Map<string, string>([[`${this.names.folder}/`, ""]]);
  /** The prompt, from before it was submitted. */
  prompt_id: string | undefined;
  readonly #site: TraceSite;
  readonly #plan: GraphPlan;
  readonly #uploaded: ServerFile[] = [];

  constructor(site: TraceSite, plan: GraphPlan) {
    this.#site = site;
    this.#plan = plan;
  }

  /** A file is about to be uploaded, or has got this name. */
  uploading(file: ServerFile, { field }: WantedFile): void {
    this.#uploaded.push(file);
    this.known.set(file.filename, `the file of ${field}`);
  }

  /** Which of the files that its history names can be the run's own. */
  get origin(): Origin {
    const { info } = this.#site.ready;
    return {
      folder: this.names.folder,
      isTrusted: (id) => !isCoreModule(info.get(this.#plan.nodes.get(id)?.class_type ?? "")?.module ?? "nodes"),
    };
  }

  /** All that may be on the server. */
  leftovers(entry?: HistoryEntry): Leftovers {
    return {
      files: [...this.#uploaded, ...(entry ? filesIn(entry, this.origin) : [])],
      folder: this.names.folder,
      ...(this.prompt_id === undefined ? {} : { prompt_id: this.prompt_id }),
    };
  }

  /** Removes it. False where something is left. Never rejects. */
  remove(entry?: HistoryEntry): Promise<boolean> {
    const { client, folder, warn } = this.#site;
    const warned = (problem: string, cause: unknown) => warn(`${client.url}: ${problem}: ${reasonOf(cause)}`);
    return clean(client, folder, this.leftovers(entry), warned);
  }
}
