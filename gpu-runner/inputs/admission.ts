import type { ContentType } from "./content-type.ts";
import type { InputKind } from "./inputs.ts";
import { Refused } from "./refused.ts";

/** What a job takes of one URL. */
export interface Want {
  /** The file must be usable as each of them. */
  readonly kinds: readonly InputKind[];
  readonly max_bytes: number;
}

/** What the downloads of one job may still take, all together. */
export interface Allowance {
  readonly bytes: number;
  left: number;
}

const TAKEN: Readonly<Record<InputKind, string>> = {
  image: "a picture (PNG, JPEG, WebP, GIF, AVIF, BMP or TIFF)",
  audio: "audio, or a video that carries it",
  video: "a video or an animated picture (GIF or WebP)",
  any: "any file",
};

/** Throws Refused where a file of this type is not what the job takes. */
export function admitType({ content_type, kinds }: ContentType, want: Want): void {
  const missed = want.kinds.find((kind) => !kinds.includes(kind));
  if (missed === undefined) return;
  const found = content_type === "application/octet-stream" ? "of no known type" : content_type;
  throw new Refused(`is ${found}; the node takes ${TAKEN[missed]}`);
}

/** Throws Refused where a file of this size (so far, or announced) is larger than the job takes. */
export function admitSize(size_bytes: number, { max_bytes }: Want): void {
  if (size_bytes > max_bytes) throw new Refused(`is larger than ${max_bytes} bytes`);
}

/** Throws Refused where so many bytes more are too many for the job. */
export function admitMore(size_bytes: number, { bytes, left }: Allowance): void {
  if (size_bytes > left) throw new Refused(`brings the inputs of this job to more than ${bytes} bytes in all`);
}
