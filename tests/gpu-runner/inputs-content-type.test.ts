import { describe, expect, test } from "vitest";
import { contentTypeOf } from "../../gpu-runner/inputs/content-type.ts";
import { picture } from "./inputs-harness.ts";

/** One character stands for one byte. */
const typed = (text: string) => contentTypeOf(Buffer.from(text, "latin1"));
const box = (brands: string): string => `\0\0\0${String.fromCharCode(8 + brands.length)}ftyp${brands}`;
const ogg = (packet: string): string => `OggS\0\x02${"\0".repeat(20)}\x01\x1e${packet}`;
const matroska = (document: string): string =>
  `\x1a\x45\xdf\xa3\x9f\x42\x86\x81\x01\x42\x82${String.fromCharCode(0x80 + document.length)}${document}\x42\x87\x81\x04`;

test.each([
  ["png", "image/png", "png"],
  ["jpeg", "image/jpeg", "jpg"],
  ["webp", "image/webp", "webp"],
  ["gif", "image/gif", "gif"],
  ["avif", "image/avif", "avif"],
  ["tiff", "image/tiff", "tif"],
] as const)("knows a picture in %s", async (format, content_type, extension) => {
  const type = await contentTypeOf(await picture(format));
  expect(type).toMatchObject({ content_type, extension });
  expect(type.kinds).toContain("image");
});

test.each([
  [`BM\x9a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0`, "image/bmp", "image"],
  [`RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x02`, "image/webp", "image,video"],
  ["GIF89a", "image/gif", "image,video"],
  [box("avif\0\0\0\0mif1avif"), "image/avif", "image"],
  ["RIFF\0\0\0\0WAVEfmt ", "audio/wav", "audio"],
  ["FORM\0\0\0\0AIFFCOMM", "audio/aiff", "audio"],
  ["fLaC\0\0\0\x22", "audio/flac", "audio"],
  // Its tag, with a picture in it, is longer than what is looked at.
  [`ID3\x04\0\0\0\x01\0\0${"\0".repeat(5000)}`, "audio/mpeg", "audio"],
  ["\xff\xfb\x90\x64\0", "audio/mpeg", "audio"],
  ["\xff\xf1\x50\x80\0", "audio/aac", "audio"],
  [box("M4A \0\0\0\0M4A mp42isom"), "audio/x-m4a", "audio"],
  [ogg("OpusHead\x01"), "audio/ogg", "audio"],
  [ogg(`\x01vorbis${"\0".repeat(30)}`), "audio/ogg", "audio"],
  [ogg(`\x80theora${"\0".repeat(30)}`), "video/ogg", "video,audio"],
  [box("isom\0\0\x02\0isomiso2avc1mp41"), "video/mp4", "video,audio"],
  [box("what\0\0\x02\0mp42"), "video/mp4", "video,audio"],
  [box("qt  \0\0\0\0qt  "), "video/quicktime", "video,audio"],
  ["\0\0\0\x08wide\0\0\x01\0mdat", "video/quicktime", "video,audio"],
  [matroska("webm"), "video/webm", "video,audio"],
  [matroska("matroska"), "video/matroska", "video,audio"],
  ["RIFF\0\0\0\0AVI LIST", "video/vnd.avi", "video,audio"],
  [`G${"\0".repeat(187)}`.repeat(3), "video/mp2t", "video,audio"],
  ["\0\0\x01\xba\x44", "video/MP2P", "video,audio"],
  // What is no input of any particular kind.
  [box("heic\0\0\0\0mif1heic"), "image/heic", ""],
  ["%PDF-1.7", "application/pdf", ""],
  ["<!DOCTYPE html><title>Sign in</title>", "text/html", ""],
  ["\xef\xbb\xbf\n <html lang=en>", "text/html", ""],
  ['<?xml version="1.0"?><svg xmlns="">', "image/svg+xml", ""],
  ["", "application/octet-stream", ""],
  ["#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd", "application/octet-stream", ""],
  ["ffconcat version 1.0\nfile /etc/passwd", "application/octet-stream", ""],
  ["\xff\xff\xff\xffftypisom", "video/mp4", "video,audio"],
])("%j is %s, of kind %j", async (beginning, content_type, kinds) => {
  const type = await typed(beginning);
  expect(type.content_type).toBe(content_type);
  expect(type.kinds).toEqual([...kinds.split(",").filter(Boolean), "any"]);
  expect(type.extension).toMatch(/^[a-z0-9]{2,4}$/);
});

describe("a file that is cut anywhere", () => {
  test.each([
    box("isom\0\0\x02\0isomiso2avc1mp41"),
    ogg("\x80theora"),
    matroska("webm"),
    "RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x02",
    "\x89PNG\r\n\x1a\n",
    "\xff\xfb\x90\x64",
  ])("still has a type: %j", async (whole) => {
    for (let length = 0; length <= whole.length; length++)
      expect((await typed(whole.slice(0, length))).extension).not.toBe("");
  });
});
