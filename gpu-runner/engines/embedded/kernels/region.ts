import type { FrameSize } from "../picture.ts";

/** The part of a frame that a kernel reads. */
export interface Region extends FrameSize {
  readonly x: number;
  readonly y: number;
}

/** Python's round(): halves go to the even neighbour. */
export function roundHalfEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}

export function wholeOf({ width, height }: FrameSize): Region {
  return { x: 0, y: 0, width, height };
}

/**
 * The centred part of `from` with the proportions of `to`. It can have no pixels when the proportions differ extremely: then
 * one side is 0 or less.
 */
export function centreOf(from: FrameSize, to: FrameSize): Region {
  const oldAspect = from.width / from.height;
  const newAspect = to.width / to.height;
  let x = 0;
  let y = 0;
  if (oldAspect > newAspect) x = roundHalfEven((from.width - from.width * (newAspect / oldAspect)) / 2);
  else if (oldAspect < newAspect) y = roundHalfEven((from.height - from.height * (oldAspect / newAspect)) / 2);
  return { x, y, width: from.width - x * 2, height: from.height - y * 2 };
}
