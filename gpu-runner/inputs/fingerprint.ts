import { createHash } from "node:crypto";
import { type ContentType, contentTypeOf, HEAD_BYTES } from "./content-type.ts";

export interface Fingerprint {
  readonly size_bytes: number;
  /** Hex. */
  readonly sha256: string;
  readonly type: ContentType;
}

/**
 * Reads all chunks, hashes them and tells their type. Each goes to `take`, whose promise is waited for before the next is read;
 * `type` comes with the chunk that decides it, and only with this one, unless the end does. Rejects as the chunks and `take` do.
 */
export async function fingerprint(
  chunks: AsyncIterable<Buffer>,
  take: (chunk: Buffer, type: ContentType | undefined) => Promise<void> = async () => {},
): Promise<Fingerprint> {
  const hash = createHash("sha256");
  const beginning: Buffer[] = [];
  let size = 0;
  let type: ContentType | undefined;
  for await (const chunk of chunks) {
    hash.update(chunk);
    size += chunk.length;
    const undecided = type === undefined;
    if (undecided) beginning.push(chunk);
    if (undecided && size >= HEAD_BYTES) type = await contentTypeOf(Buffer.concat(beginning));
    await take(chunk, undecided ? type : undefined);
  }
  return {
    size_bytes: size,
    sha256: hash.digest("hex"),
    type: type ?? (await contentTypeOf(Buffer.concat(beginning))),
  };
}
