import type { ClassName } from "./node-classes.ts";
import type { NodeFunction } from "./node-run.ts";
import { emptyImage } from "./nodes/empty-image.ts";
import { imageBlend } from "./nodes/image-blend.ts";
import { imageBlur } from "./nodes/image-blur.ts";
import { imageInvert } from "./nodes/image-invert.ts";
import { imageScale } from "./nodes/image-scale.ts";
import { loadImage } from "./nodes/load-image.ts";
import { previewImage, saveImage } from "./nodes/save-image.ts";

/** What each class does; loaded in the child only. */
export const NODE_FUNCTIONS: Readonly<Record<ClassName, NodeFunction>> = {
  EmptyImage: emptyImage,
  LoadImage: loadImage,
  ImageScale: imageScale,
  ImageInvert: imageInvert,
  ImageBlend: imageBlend,
  ImageBlur: imageBlur,
  SaveImage: saveImage,
  PreviewImage: previewImage,
};
