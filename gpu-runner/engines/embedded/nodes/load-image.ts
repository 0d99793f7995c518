import { decodePicture } from "../decode-picture.ts";
import { readInputFile } from "../input-files.ts";
import { NodeFailure, type NodeFunction } from "../node-run.ts";

export const loadImage: NodeFunction = async (inputs, context) => {
  const name = inputs.text("image");
  const file = await readInputFile(context.inputs, name);
  if (!file.ok) throw new NodeFailure(file.message, { code: "invalid_prompt" });
  const decoded = await decodePicture(file.bytes, context.budget);
  if (!decoded) {
    throw new NodeFailure(
      `The input file ${JSON.stringify(name)} is not a picture that can be decoded (PNG, JPEG, WebP, GIF, TIFF, AVIF).`,
    );
  }
  context.step(decoded.frames.length, decoded.frames.length);
  return decoded;
};
