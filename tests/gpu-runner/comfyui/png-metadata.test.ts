import { crc32, deflateSync } from "node:zlib";
import fc from "fast-check";
import sharp from "sharp";
import { describe, expect, it } from "vitest";
import { withoutPngMetadata } from "../../../gpu-runner/engines/comfyui/png-metadata.ts";

const picture = await sharp({ create: { width: 9, height: 7, channels: 3, background: "#a13" } })
  .png()
  .toBuffer();

function chunk(type: string, data: Uint8Array): Buffer {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const head = Buffer.alloc(4);
  head.writeUInt32BE(data.length);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([head, body, sum]);
}

const IHDR_END = 33;
const WORKFLOW = `prompt\0${JSON.stringify({ 1: { class_type: "Secret" } })}`;
const described = Buffer.concat([
  picture.subarray(0, IHDR_END),
  chunk("tEXt", Buffer.from(WORKFLOW)),
  chunk("zTXt", Buffer.concat([Buffer.from("workflow\0\0"), deflateSync("{}")])),
  chunk("iTXt", Buffer.from("parameters\0\0\0\0\0steps")),
  chunk("tIME", Buffer.alloc(7)),
  picture.subarray(IHDR_END, -12),
  chunk("tEXt", Buffer.from(WORKFLOW)),
  chunk("eXIf", Buffer.from("II*\0\x08\0\0\0\0\0")),
  picture.subarray(-12),
]);

async function passed(parts: readonly Uint8Array[]): Promise<Buffer> {
  async function* source() {
    yield* parts;
  }
  const out: Uint8Array[] = [];
  for await (const part of withoutPngMetadata(source())) out.push(Buffer.from(part));
  return Buffer.concat(out);
}

describe("A PNG loses its metadata", () => {
  it("and stays the picture that it was", async () => {
    const bytes = await passed([described]);
    expect(bytes.equals(picture)).toBe(true);
    expect(await sharp(bytes).raw().toBuffer()).toEqual(await sharp(described).raw().toBuffer());
    expect((await sharp(described).metadata()).comments?.map(({ keyword }) => keyword)).toContain("prompt");
    expect((await sharp(bytes).metadata()).comments).toBeUndefined();
  });

  it("wherever its bytes are split in two", async () => {
    for (let at = 0; at <= described.length; at++)
      expect((await passed([described.subarray(0, at), described.subarray(at)])).equals(picture)).toBe(true);
  });

  it("byte by byte, and in any parts", async () => {
    expect((await passed([...described].map((byte) => Uint8Array.of(byte)))).equals(picture)).toBe(true);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat({ max: described.length }), { maxLength: 12 }), async (cuts) => {
        const places = [0, ...cuts.toSorted((a, b) => a - b), described.length];
        const parts = places.slice(1).map((end, n) => described.subarray(places[n], end));
        expect((await passed(parts)).equals(picture)).toBe(true);
      }),
    );
  });

  it("as far as it goes where it breaks off, with no more of the metadata than the head of a chunk", async () => {
    for (let at = 0; at < described.length; at++) {
      const bytes = await passed([described.subarray(0, at)]);
      const whole = bytes.subarray(0, Math.max(0, bytes.length - 7));
      expect(picture.subarray(0, whole.length).equals(whole)).toBe(true);
    }
  });

  it("and keeps colour profiles and densities, which draw", async () => {
    const dense = await sharp(picture).withMetadata({ density: 300 }).png().toBuffer();
    const bytes = await passed([dense]);
    expect((await sharp(bytes).metadata()).density).toBe(300);
  });
});

describe("A file that is no PNG is passed on as it is", () => {
  it("whatever it holds, in any parts", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 20 }), { maxLength: 6 }), async (parts) => {
        expect(await passed(parts)).toEqual(Buffer.concat(parts));
      }),
    );
  });

  it("also where it is shorter than a PNG's first bytes, or begins almost like one", async () => {
    const cousin = Buffer.concat([Buffer.from([0x89]), described.subarray(1)]);
    cousin[7] = 0;
    for (const bytes of [Buffer.from("hi"), described.subarray(0, 5), cousin, await sharp(picture).jpeg().toBuffer()])
      expect(await passed([bytes])).toEqual(bytes);
  });
});

it("A chunk that says it is longer than the file is passed on as far as it goes.", async () => {
  const liar = Buffer.concat([picture.subarray(0, IHDR_END), Buffer.from("ffffffff", "hex"), Buffer.from("IDATxyz")]);
  expect(await passed([liar])).toEqual(liar);
});
