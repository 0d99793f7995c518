import type { NodeFunction } from "../node-run.ts";

/** Writes every picture as a PNG and hands the batch on. */
export const saveImage: NodeFunction = async (inputs, context) => {
  const images = inputs.picture("images");
  await context.outputs?.save(context, images, inputs.text("filename_prefix"));
  return images;
};

/** How ComfyUI names what PreviewImage writes. */
const PREVIEW_PREFIX = "ComfyUI_temp";

export const previewImage: NodeFunction = async (inputs, context) => {
  const images = inputs.picture("images");
  await context.outputs?.save(context, images, PREVIEW_PREFIX);
  return images;
};
