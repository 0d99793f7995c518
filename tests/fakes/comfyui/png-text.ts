import { crc32 } from "node:zlib";

const IHDR_END = 33;

/** Puts text chunks after the header of a PNG, as the saving nodes write the prompt. */
export function withText(png: Buffer, texts: Readonly<Record<string, string>>): Buffer {
  const chunks = Object.entries(texts).map(([key, text]) => {
    const content = Buffer.concat([Buffer.from("tEXt"), Buffer.from(`${key}\0${text}`, "latin1")]);
    const length = Buffer.alloc(4);
    length.writeUInt32BE(content.length - 4);
    const check = Buffer.alloc(4);
    check.writeUInt32BE(crc32(content));
    return Buffer.concat([length, content, check]);
  });
  return Buffer.concat([png.subarray(0, IHDR_END), ...chunks, png.subarray(IHDR_END)]);
}
