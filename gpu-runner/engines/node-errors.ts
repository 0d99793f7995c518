import type { NodeError } from "../../schemas/prompt.ts";

/** Of all errors as JSON: details that outgrow a job's record are left out as a whole (schemas/runner-protocol.ts). */
const MAX_ERRORS_LENGTH = 6_000;

/** Errors by node, as many as may be told. */
export class NodeErrors {
  readonly byNode = new Map<string, NodeError[]>();
  /** The first one, also where it is too long to be listed. */
  first: NodeError | undefined;
  #room = MAX_ERRORS_LENGTH;

  add(id: string, error: NodeError): void {
    this.first ??= error;
    const length = JSON.stringify([id, error]).length;
    if (length > this.#room) return;
    this.#room -= length;
    const list = this.byNode.get(id);
    if (list) list.push(error);
    else this.byNode.set(id, [error]);
  }
}
