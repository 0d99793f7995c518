import { join } from "node:path";
import type { OutputNames } from "./output-names.ts";
import { CHANNELS, type Picture, toBytes } from "./picture.ts";
import { sharp } from "./sharp-in-child.ts";

export interface SavedFile {
  readonly node_id: string;
  readonly index: number;
  readonly filename: string;
}

/** ComfyUI's level: about a tenth larger than the smallest, in a fraction of the time. */
const COMPRESSION_LEVEL = 4;

/** The node whose pictures are saved, and who hears that `done` of `total` are. */
export interface SavingNode {
  readonly nodeId: string;
  step(done: number, total: number): void;
}

/** The pictures that a run has saved, in the run's scratch folder. */
export class OutputFolder {
  readonly files: SavedFile[] = [];
  readonly #path: string;
  readonly #names: OutputNames;

  constructor(path: string, names: OutputNames) {
    this.#path = path;
    this.#names = names;
  }

  async save({ nodeId, step }: SavingNode, picture: Picture, prefix: string): Promise<void> {
    const { width, height, frames } = picture;
    for (const [index, frame] of frames.entries()) {
      const filename = this.#names.next(prefix, picture, index);
      await sharp(toBytes(frame), { raw: { width, height, channels: CHANNELS }, limitInputPixels: false })
        .png({ compressionLevel: COMPRESSION_LEVEL })
        .toFile(join(this.#path, filename));
      this.files.push({ node_id: nodeId, index, filename });
      step(index + 1, frames.length);
    }
  }
}
