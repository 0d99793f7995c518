import type { NodeFunction } from "../node-run.ts";
import { CHANNELS, FLOAT_OF_BYTE } from "../picture.ts";
import { eachFrame } from "./each-frame.ts";

export const emptyImage: NodeFunction = (inputs, context) => {
  const size = { width: inputs.number("width"), height: inputs.number("height") };
  const color = inputs.number("color");
  const rgb = [16, 8, 0].map((shift) => FLOAT_OF_BYTE[(color >> shift) & 0xff] ?? 0);
  return eachFrame(context, size, inputs.number("batch_size"), (target) => {
    for (const [c, value] of rgb.entries()) {
      for (let i = c; i < target.length; i += CHANNELS) target[i] = value;
    }
  });
};
