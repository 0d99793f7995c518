import { BLEND_MODES, blend } from "../kernels/blend.ts";
import { NodeFailure, type NodeFunction } from "../node-run.ts";
import { eachFrame, frameAt } from "./each-frame.ts";
import { resize } from "./resize.ts";

/** The second picture is brought to the size of the first, bicubic, its centre cropped. A batch of one goes with any batch. */
export const imageBlend: NodeFunction = (inputs, context) => {
  const base = inputs.picture("image1");
  const given = inputs.picture("image2");
  const counts = [base.frames.length, given.frames.length];
  const count = Math.max(...counts);
  if (counts.some((length) => length !== count && length !== 1)) {
    throw new NodeFailure(
      `Batches of ${counts.join(" and ")} pictures can't be blended; give equal batches, or one picture.`,
    );
  }
  const mode = BLEND_MODES.find((name) => name === inputs.text("blend_mode"));
  if (!mode) throw new Error("The mode is not in the list.");
  const same = base.width === given.width && base.height === given.height;
  const silent = { ...context, step: () => {} };
  const top = same ? given : resize(given, base, { method: "bicubic", crop: true }, silent);
  const factor = inputs.number("blend_factor");
  const blended = eachFrame(context, base, count, (target, index) => {
    blend(frameAt(base, index), frameAt(top, index), target, mode, factor);
  });
  if (top !== given) context.budget.release(top);
  return blended;
};
