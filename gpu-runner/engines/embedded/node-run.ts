import type { EngineFailureCode } from "../../engine.ts";
import type { InputFiles } from "./input-files.ts";
import type { Value } from "./input-values.ts";
import type { OutputFolder } from "./output-folder.ts";
import type { Picture } from "./picture.ts";
import type { PixelBudget } from "./pixel-budget.ts";

/** A node's expected failure; its message is told to the customer. */
export class NodeFailure extends Error {
  override readonly name = "NodeFailure";
  readonly code: EngineFailureCode;

  constructor(message: string, { code = "execution_failed" }: { code?: EngineFailureCode } = {}) {
    super(message);
    this.code = code;
  }
}

/** A planned node's inputs. Asking for one that the class does not declare is a fault of this engine. */
export class NodeInputs {
  readonly #values: ReadonlyMap<string, Value>;
  readonly #pictures: ReadonlyMap<string, Picture>;

  constructor(values: ReadonlyMap<string, Value>, pictures: ReadonlyMap<string, Picture>) {
    this.#values = values;
    this.#pictures = pictures;
  }

  picture(field: string): Picture {
    const picture = this.#pictures.get(field);
    if (!picture) throw new Error(`There is no picture ${field}.`);
    return picture;
  }

  number(field: string): number {
    const value = this.#values.get(field);
    if (typeof value !== "number") throw new Error(`There is no number ${field}.`);
    return value;
  }

  text(field: string): string {
    const value = this.#values.get(field);
    if (typeof value !== "string") throw new Error(`There is no text ${field}.`);
    return value;
  }
}

export interface NodeContext {
  readonly nodeId: string;
  readonly budget: PixelBudget;
  /** Where LoadImage reads; absent where the engine was given no folder. */
  readonly inputs: InputFiles;
  /** Where pictures of a node of this class go; absent for previews that nobody will see. */
  readonly outputs: OutputFolder | undefined;
  /** Tells that `done` of `total` pictures of this node are ready. */
  step(done: number, total: number): void;
}

/** Executes a node and returns its first output, which may be one of its input pictures itself. */
export type NodeFunction = (inputs: NodeInputs, context: NodeContext) => Picture | Promise<Picture>;
