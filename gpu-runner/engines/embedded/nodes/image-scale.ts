import { roundHalfEven } from "../kernels/region.ts";
import { SCALE_METHODS } from "../node-classes.ts";
import type { NodeFunction } from "../node-run.ts";
import { resize } from "./resize.ts";

/** A side of 0 follows from the other one; with both 0 the picture stays as it is. */
export const imageScale: NodeFunction = (inputs, context) => {
  const image = inputs.picture("image");
  let width = inputs.number("width");
  let height = inputs.number("height");
  if (width === 0 && height === 0) return image;
  if (width === 0) width = Math.max(1, roundHalfEven((image.width * height) / image.height));
  else if (height === 0) height = Math.max(1, roundHalfEven((image.height * width) / image.width));
  const method = SCALE_METHODS.find((name) => name === inputs.text("upscale_method"));
  if (!method) throw new Error("The method is not in the list.");
  return resize(image, { width, height }, { method, crop: inputs.text("crop") === "center" }, context);
};
