const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
/** Chunks that describe and do not draw: the workflow stands in `tEXt` and `iTXt`. */
const DESCRIBING = new Set(["tEXt", "zTXt", "iTXt", "eXIf", "tIME"]);
const HEADER_BYTES = 8;
const CHECKSUM_BYTES = 4;

/**
 * Passes a file on; of a PNG, without the chunks that describe it. The pixels' own bytes are not touched, and nothing but a
 * chunk's head is held back.
 */
export async function* withoutPngMetadata(source: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  let held: Buffer = Buffer.alloc(0);
  let isPng: boolean | undefined;
  /** Bytes of the present chunk that are still to come, and whether they are passed on. */
  let left = 0;
  let passes = true;
  for await (const part of source) {
    held = held.length > 0 ? Buffer.concat([held, part]) : Buffer.from(part.buffer, part.byteOffset, part.byteLength);
    if (isPng === undefined) {
      if (held.length < SIGNATURE.length) continue;
      isPng = held.subarray(0, SIGNATURE.length).equals(SIGNATURE);
      left = isPng ? SIGNATURE.length : 0;
    }
    while (held.length > 0) {
      if (!isPng) left = held.length;
      if (left === 0) {
        if (held.length < HEADER_BYTES) break;
        left = HEADER_BYTES + held.readUInt32BE(0) + CHECKSUM_BYTES;
        passes = !DESCRIBING.has(held.subarray(4, HEADER_BYTES).toString("latin1"));
      }
      const taken = held.subarray(0, left);
      if (passes) yield taken;
      left -= taken.length;
      held = held.subarray(taken.length);
    }
  }
  if (held.length > 0 && passes) yield held;
}
