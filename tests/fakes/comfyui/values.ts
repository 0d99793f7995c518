import type { Json } from "./python-json.ts";
import { repr } from "./python-json.ts";

/** A batch of pictures, 8 bits RGB a frame. */
export class Picture {
  readonly width: number;
  readonly height: number;
  readonly frames: readonly Buffer[];

  constructor(width: number, height: number, frames: readonly Buffer[]) {
    this.width = width;
    this.height = height;
    this.frames = frames;
  }
}

export class Mask {
  readonly width: number;
  readonly height: number;
  readonly value: number;

  constructor(width: number, height: number, value: number) {
    this.width = width;
    this.height = height;
    this.value = value;
  }
}

/** A value that only passes from node to node: a model, sound, a latent. */
export class Opaque {
  readonly kind: string;

  constructor(kind: string) {
    this.kind = kind;
  }
}

/** `ExecutionBlocker`: nodes that get it do not run. */
export class Blocked {
  readonly message: string | null;

  constructor(message: string | null) {
    this.message = message;
  }
}

export type Value = Json | Picture | Mask | Opaque | Blocked;

function tensorText(picture: Picture): string {
  const frame = picture.frames[0] ?? Buffer.alloc(3);
  const pixel = [0, 1, 2].map((at) => ((frame[at] ?? 0) / 255).toFixed(4)).join(", ");
  return `tensor([[[[${pixel}],\n          ...,\n          [${pixel}]]]])`;
}

/** How a value stands in `current_inputs` of a failure. */
export function format(value: Value): Json {
  if (value instanceof Picture) return tensorText(value);
  if (value instanceof Mask) return `tensor([[[${value.value.toFixed(4)}, ..., ${value.value.toFixed(4)}]]])`;
  if (value instanceof Opaque) return `<${value.kind} object>`;
  if (value instanceof Blocked) return "<ExecutionBlocker object>";
  return typeof value === "object" && value !== null ? repr(value) : value;
}
