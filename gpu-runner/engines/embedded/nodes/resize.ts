import { lanczos } from "../kernels/lanczos.ts";
import { area, nearest } from "../kernels/nearest-and-area.ts";
import { centreOf, type Region, wholeOf } from "../kernels/region.ts";
import { resample } from "../kernels/resample.ts";
import { cubicTaps, linearTaps } from "../kernels/taps.ts";
import type { SCALE_METHODS } from "../node-classes.ts";
import { type NodeContext, NodeFailure } from "../node-run.ts";
import type { Frame, FrameSize, Picture } from "../picture.ts";
import { eachFrame, frameAt } from "./each-frame.ts";

export type ScaleMethod = (typeof SCALE_METHODS)[number];

type Draw = (source: Frame, target: Frame) => void;

function drawing(method: ScaleMethod, from: FrameSize, region: Region, size: FrameSize): Draw {
  switch (method) {
    case "nearest-exact":
      return (source, target) => nearest(source, from.width, region, target, size);
    case "area":
      return (source, target) => area(source, from.width, region, target, size);
    case "lanczos":
      return (source, target) => lanczos(source, from.width, region, target, size);
    case "bilinear":
    case "bicubic": {
      const tapsOf = method === "bilinear" ? linearTaps : cubicTaps;
      const taps = { across: tapsOf(region.width, size.width), down: tapsOf(region.height, size.height) };
      return (source, target) => resample(source, from.width, region, target, size, taps);
    }
  }
}

/** Every picture of a batch in another size; `crop` first cuts out the centre with the new proportions. */
export function resize(
  image: Picture,
  size: FrameSize,
  { method, crop }: { readonly method: ScaleMethod; readonly crop: boolean },
  context: NodeContext,
): Picture {
  const region = crop ? centreOf(image, size) : wholeOf(image);
  if (region.width < 1 || region.height < 1) {
    throw new NodeFailure(
      `Nothing of the picture is left: ${image.width} x ${image.height} can't be cropped to the proportions of ${size.width} x ${size.height}.`,
    );
  }
  const draw = drawing(method, image, region, size);
  return eachFrame(context, size, image.frames.length, (target, index) => draw(frameAt(image, index), target));
}
