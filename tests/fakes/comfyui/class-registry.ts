import { LOADING_CLASSES } from "./classes/loading.ts";
import { type Models, modelClasses } from "./classes/models.ts";
import { PICTURE_CLASSES } from "./classes/pictures.ts";
import { RECORDER_CLASSES } from "./classes/recorder.ts";
import { SAVING_CLASSES } from "./classes/saving.ts";
import type { Folders } from "./folders.ts";
import type { NodeClass } from "./node-class.ts";
import type { Inputs, ObjectInfo } from "./object-info.ts";

/** The node classes of a server, by name. */
export class ClassRegistry {
  readonly #classes: ReadonlyMap<string, NodeClass>;
  readonly #folders: Folders;

  constructor(folders: Folders, models: Models) {
    this.#folders = folders;
    this.#classes = new Map(
      Object.entries({
        ...PICTURE_CLASSES,
        ...LOADING_CLASSES,
        ...SAVING_CLASSES,
        ...modelClasses(models),
        ...RECORDER_CLASSES,
      }),
    );
  }

  get names(): readonly string[] {
    return [...this.#classes.keys()];
  }

  find(name: unknown): NodeClass | undefined {
    return typeof name === "string" ? this.#classes.get(name) : undefined;
  }

  get(name: string): NodeClass {
    const found = this.#classes.get(name);
    if (found === undefined) throw new Error(`the fake has no class ${name}`);
    return found;
  }

  info(name: string): ObjectInfo {
    return this.get(name).info(this.#folders);
  }

  /** The inputs that a node of the class may have, required ones first. */
  inputs(name: string): Inputs {
    const { required, optional } = this.info(name).input;
    return { ...required, ...optional };
  }

  isOutput(name: string): boolean {
    return this.info(name).output_node;
  }

  isAsync(name: string): boolean {
    return this.get(name).isAsync ?? false;
  }
}
