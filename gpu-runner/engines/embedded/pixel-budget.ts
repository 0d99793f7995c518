import { CHANNELS, type Frame, type FrameSize, type Picture, pixelsOf } from "./picture.ts";

/** Thrown before anything is allocated; the run ends as `out_of_memory`. */
export class PixelBudgetExceeded extends Error {
  override readonly name = "PixelBudgetExceeded";
}

/** Hands out the pictures of one run and bounds how many pixels are alive at once, batches counted picture by picture. */
export class PixelBudget {
  readonly #max: number;
  #live = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get live(): number {
    return this.#live;
  }

  /** A black batch. Throws PixelBudgetExceeded instead of allocating what does not fit. */
  allocate({ width, height }: FrameSize, count: number): Picture {
    const pixels = width * height * count;
    if (this.#live + pixels > this.#max) {
      const held = this.#live > 0 ? ` while ${this.#live} are in use` : "";
      throw new PixelBudgetExceeded(
        `${count} x ${width} x ${height} pixels are needed${held}; this engine holds at most ${this.#max} at once.`,
      );
    }
    this.#live += pixels;
    const frames = Array.from({ length: count }, (): Frame => new Float32Array(width * height * CHANNELS));
    return { width, height, frames };
  }

  /** Gives the memory back at once, without waiting for a garbage collection: the frames are detached. */
  release(picture: Picture): void {
    this.#live -= pixelsOf(picture);
    for (const frame of picture.frames) frame.buffer.transfer(0);
  }
}
