import { BLEND_MODES } from "./kernels/blend.ts";

/** What an input takes. IMAGE comes by a link only; the others are values. */
export type InputKind =
  | { readonly kind: "IMAGE" }
  | { readonly kind: "INT" | "FLOAT"; readonly min: number; readonly max: number }
  | { readonly kind: "STRING" }
  /** The bare name of a file in the inputs folder. */
  | { readonly kind: "INPUT_FILE" }
  | { readonly kind: "COMBO"; readonly options: readonly string[] };

export interface NodeClass {
  /** All of them are required, as in ComfyUI. */
  readonly inputs: ReadonlyMap<string, InputKind>;
  /** The type of every output. No class here takes a MASK, so that none is ever computed. */
  readonly outputs: readonly ("IMAGE" | "MASK")[];
  /** Nodes of such a class are what a graph is run for. */
  readonly isOutput: boolean;
}

/** The longest side of a picture in ComfyUI. */
const MAX_SIDE = 16_384;

const image: InputKind = { kind: "IMAGE" };
const int = (min: number, max: number): InputKind => ({ kind: "INT", min, max });
const float = (min: number, max: number): InputKind => ({ kind: "FLOAT", min, max });
const combo = (options: readonly string[]): InputKind => ({ kind: "COMBO", options });
const nodeClass = (inputs: Record<string, InputKind>, outputs: NodeClass["outputs"], isOutput = false): NodeClass => ({
  inputs: new Map(Object.entries(inputs)),
  outputs,
  isOutput,
});

export const SCALE_METHODS = ["nearest-exact", "bilinear", "area", "bicubic", "lanczos"] as const;

/** The classes of this engine, with the inputs and ranges that ComfyUI 0.33 declares for them. */
const classes = {
  EmptyImage: nodeClass(
    { width: int(1, MAX_SIDE), height: int(1, MAX_SIDE), batch_size: int(1, 4096), color: int(0, 0xffffff) },
    ["IMAGE"],
  ),
  LoadImage: nodeClass({ image: { kind: "INPUT_FILE" } }, ["IMAGE", "MASK"]),
  ImageScale: nodeClass(
    {
      image,
      upscale_method: combo(SCALE_METHODS),
      width: int(0, MAX_SIDE),
      height: int(0, MAX_SIDE),
      crop: combo(["disabled", "center"]),
    },
    ["IMAGE"],
  ),
  ImageInvert: nodeClass({ image }, ["IMAGE"]),
  ImageBlend: nodeClass({ image1: image, image2: image, blend_factor: float(0, 1), blend_mode: combo(BLEND_MODES) }, [
    "IMAGE",
  ]),
  ImageBlur: nodeClass({ image, blur_radius: int(1, 31), sigma: float(0.1, 10) }, ["IMAGE"]),
  SaveImage: nodeClass({ images: image, filename_prefix: { kind: "STRING" } }, ["IMAGE"], true),
  PreviewImage: nodeClass({ images: image }, ["IMAGE"], true),
} as const;

export type ClassName = keyof typeof classes;
export const CLASS_NAMES = Object.keys(classes) as readonly ClassName[];

const byName: ReadonlyMap<string, readonly [ClassName, NodeClass]> = new Map(
  CLASS_NAMES.map((name) => [name, [name, classes[name]]]),
);

/** The class of that name, or undefined; safe for names such as `constructor`. */
export function findClass(name: string): readonly [ClassName, NodeClass] | undefined {
  return byName.get(name);
}
