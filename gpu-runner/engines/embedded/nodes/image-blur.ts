import { blur, gaussianWeights } from "../kernels/gaussian.ts";
import { NodeFailure, type NodeFunction } from "../node-run.ts";
import { eachFrame, frameAt } from "./each-frame.ts";

export const imageBlur: NodeFunction = (inputs, context) => {
  const image = inputs.picture("image");
  const radius = inputs.number("blur_radius");
  if (radius >= image.width || radius >= image.height) {
    throw new NodeFailure(
      `blur_radius must be smaller than both sides of the picture: it is ${radius}, the picture ${image.width} x ${image.height}.`,
    );
  }
  const weights = gaussianWeights(radius, inputs.number("sigma"));
  return eachFrame(context, image, image.frames.length, (target, index) => {
    blur(frameAt(image, index), target, image, weights);
  });
};
