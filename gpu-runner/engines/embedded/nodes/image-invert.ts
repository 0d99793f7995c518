import type { NodeFunction } from "../node-run.ts";
import { eachFrame, frameAt } from "./each-frame.ts";

export const imageInvert: NodeFunction = (inputs, context) => {
  const image = inputs.picture("image");
  return eachFrame(context, image, image.frames.length, (target, index) => {
    const source = frameAt(image, index);
    for (let i = 0; i < target.length; i++) target[i] = 1 - (source[i] ?? 0);
  });
};
