import type { NodeContext } from "../node-run.ts";
import type { Frame, FrameSize, Picture } from "../picture.ts";

/** Makes a batch as long as `count`, picture by picture, telling after each how many are done. */
export function eachFrame(
  { budget, step }: NodeContext,
  size: FrameSize,
  count: number,
  draw: (target: Frame, index: number) => void,
): Picture {
  const picture = budget.allocate(size, count);
  for (const [index, frame] of picture.frames.entries()) {
    draw(frame, index);
    step(index + 1, count);
  }
  return picture;
}

/** The picture of a batch at that position; a batch of one serves every position. */
export function frameAt({ frames }: Picture, index: number): Frame {
  const frame = frames[frames.length === 1 ? 0 : index];
  if (!frame) throw new Error("The picture is outside its batch.");
  return frame;
}
