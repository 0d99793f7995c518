import type { Behaviour } from "./behaviour.ts";
import type { Json, JsonObject } from "./python-json.ts";
import type { Sockets } from "./sockets.ts";

export interface Origin {
  readonly display: string;
  readonly parent: string | null;
  readonly real: string;
}

export interface Preview {
  readonly image: Buffer;
  readonly format: "jpeg" | "png";
}

/** How far each started node of a prompt is; every change is told to the owner of the prompt, all nodes in each message. */
export class ProgressState {
  readonly #nodes: Record<string, JsonObject> = {};
  readonly #prompt_id: string;
  readonly #client: Json;
  readonly #sockets: Sockets;
  readonly #behaviour: Behaviour;
  readonly #origin: (id: string) => Origin;

  constructor(sockets: Sockets, behaviour: Behaviour, prompt_id: string, client: Json, origin: (id: string) => Origin) {
    this.#sockets = sockets;
    this.#behaviour = behaviour;
    this.#prompt_id = prompt_id;
    this.#client = client;
    this.#origin = origin;
  }

  start(id: string): void {
    this.#set(id, 0, 1, "running");
  }

  finish(id: string): void {
    const max = Number(this.#nodes[id]?.max ?? 1);
    this.#set(id, max, max, "finished");
  }

  /** A step of a running node: `progress_state`, `progress`, and the preview in the form that the owner asked for. */
  step(id: string, value: number, max: number, preview: Preview | undefined): void {
    this.#set(id, value, max, "running");
    const withMetadata = this.#sockets.takesPreviewMetadata(this.#client);
    if (preview !== undefined && withMetadata)
      this.#sockets.previewWithMetadata(preview, this.#about(id), this.#client);
    const data = { value, max, prompt_id: this.#prompt_id, node: id };
    this.#sockets.send("progress", data, this.#client);
    if (preview !== undefined && !withMetadata) this.#sockets.preview(preview, this.#client);
  }

  #about(id: string): JsonObject {
    const { display, parent, real } = this.#origin(id);
    return {
      node_id: id,
      prompt_id: this.#prompt_id,
      display_node_id: display,
      parent_node_id: parent,
      real_node_id: real,
    };
  }

  #set(id: string, value: number, max: number, state: "running" | "finished"): void {
    this.#nodes[id] = { value, max, state, ...this.#about(id) };
    if (!this.#behaviour.progressState) return;
    this.#sockets.send("progress_state", { prompt_id: this.#prompt_id, nodes: { ...this.#nodes } }, this.#client);
  }
}
