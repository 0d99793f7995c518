import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseLenient } from "../../../gpu-runner/engines/comfyui/json.ts";
import { readFrame, readMessage } from "../../../gpu-runner/engines/comfyui/messages.ts";

const message = (type: unknown, data: unknown) => readMessage(JSON.stringify({ type, data }));
const PROMPT = { prompt_id: "p" };

describe("A message", () => {
  it.each([
    ["execution_start", {}, { type: "started", ...PROMPT }],
    ["execution_cached", { nodes: ["1", 7, null] }, { type: "cached", ...PROMPT, nodes: ["1"] }],
    ["execution_cached", { nodes: null }, { type: "cached", ...PROMPT, nodes: [] }],
    ["executing", { node: "5.1", display_node: "5" }, { type: "executing", ...PROMPT, node: "5.1", display: "5" }],
    ["executing", { node: "5" }, { type: "executing", ...PROMPT, node: "5", display: "5" }],
    ["executing", { node: null }, { type: "ending", ...PROMPT }],
    ["execution_success", {}, { type: "ending", ...PROMPT }],
    ["execution_error", {}, { type: "ending", ...PROMPT }],
    ["execution_interrupted", {}, { type: "ending", ...PROMPT }],
    ["progress", { node: "5", value: 2, max: 4 }, { type: "step", ...PROMPT, node: "5", value: 2, max: 4 }],
    ["progress", { node: "5", value: "2", max: null }, { type: "step", ...PROMPT, node: "5", value: 0, max: 0 }],
    ["executed", { node: "5", output: {} }, { type: "other", ...PROMPT }],
    ["of a pack", {}, { type: "other", ...PROMPT }],
  ])("%s with %j is read", (type, data, read) => {
    expect(message(type, { ...PROMPT, ...data })).toEqual(read);
  });

  it("after a reconnect names a node and no prompt", () => {
    expect(message("executing", { node: "5" })).toEqual({ type: "executing", node: "5", display: "5" });
  });

  it("of all nodes' states is read node by node, also of a prototype's name", () => {
    const nodes = `{"__proto__":{"state":"finished","value":1,"max":1},"5.1":{"state":"running","display_node_id":"5","value":NaN},"6":7}`;
    expect(readMessage(`{"type":"progress_state","data":{"prompt_id":"p","nodes":${nodes}}}`)).toEqual({
      type: "state",
      ...PROMPT,
      nodes: [
        { id: "__proto__", display: "__proto__", finished: true, value: 1, max: 1 },
        { id: "5.1", display: "5", finished: false, value: 0, max: 0 },
      ],
    });
  });

  it("that concerns no prompt, or is none, is passed over", () => {
    expect(message("status", { status: {} })).toBeUndefined();
    expect(message("executing", { node: null })).toBeUndefined();
    expect(message(7, PROMPT)).toBeUndefined();
    for (const text of ["", "null", "[]", "7", "{", '{"type":"executed","data":[]}', "\ud800"])
      expect(readMessage(text)).toBeUndefined();
  });

  it("of any shape is no fault", () => {
    const keys = fc.constantFrom("prompt_id", "node", "nodes", "display_node", "value", "max");
    const types = fc.constantFrom("executing", "progress", "progress_state", "execution_cached", "executed");
    fc.assert(fc.property(types, fc.dictionary(keys, fc.jsonValue()), (type, data) => void message(type, data)));
  });
});

/** A frame of the kind `kind`: 32-bit numbers and bytes, one after the other. */
const frame = (...parts: readonly (number | string | Uint8Array)[]): Buffer =>
  Buffer.concat(
    parts.map((part) => {
      if (typeof part !== "number") return Buffer.from(part);
      const bytes = Buffer.alloc(4);
      bytes.writeUInt32BE(part);
      return bytes;
    }),
  );

const withMetadata = (metadata: unknown, bytes: string): Buffer => {
  const text = JSON.stringify(metadata);
  return frame(4, Buffer.byteLength(text), text, bytes);
};

describe("A frame", () => {
  it.each([
    [1, "image/jpeg"],
    [2, "image/png"],
  ])("of the kind 1 and the format %i is a preview of %s", (format, content_type) => {
    const read = readFrame(frame(1, format, "picture"));
    expect(read).toEqual({ type: "preview", preview: { content_type, bytes: Buffer.from("picture") } });
  });

  it("of the kind 4 names its prompt and the node of the workflow", () => {
    const ids = { prompt_id: "p", node_id: "5.1", display_node_id: "5", image_type: "image/png" };
    expect(readFrame(withMetadata(ids, "picture"))).toEqual({
      type: "preview",
      prompt_id: "p",
      preview: { content_type: "image/png", node_id: "5", bytes: Buffer.from("picture") },
    });
    const { display_node_id: _, ...own } = ids;
    expect(readFrame(withMetadata({ ...own, image_type: "text/html" }, "x"))).toMatchObject({
      preview: { content_type: "image/jpeg", node_id: "5.1" },
    });
    expect(readFrame(withMetadata({ prompt_id: 7, node_id: [] }, "é"))).toEqual({
      type: "preview",
      preview: { content_type: "image/jpeg", bytes: Buffer.from("é") },
    });
  });

  it("in the middle of a larger buffer is read from its own place", () => {
    const whole = frame(9, 9, 1, 2, "picture", 9);
    const read = readFrame(whole.subarray(8, 23));
    expect(read).toMatchObject({ preview: { content_type: "image/png", bytes: Buffer.from("picture") } });
  });

  it.each([
    ["nothing", frame()],
    ["seven bytes", frame(1, "abc")],
    ["an unknown format", frame(1, 3, "x")],
    ["text", frame(3, 1, "5", "words")],
    ["metadata longer than the frame", frame(4, 0xffffffff, "{}")],
    ["metadata that are no object", withMetadata([], "x")],
    ["metadata that are no JSON", frame(4, 2, "{{", "x")],
    ["a kind of tomorrow", frame(77, 1, "x")],
  ])("of %s is passed over", (_, bytes) => {
    expect(readFrame(bytes)).toBeUndefined();
  });

  it("of any bytes is no fault", () => {
    const kinds = fc.tuple(fc.integer({ min: 0, max: 5 }), fc.nat({ max: 40 }), fc.uint8Array({ maxLength: 40 }));
    fc.assert(fc.property(kinds, ([kind, second, rest]) => void readFrame(frame(kind, second, rest))));
    fc.assert(fc.property(fc.uint8Array(), (bytes) => void readFrame(bytes)));
  });
});

describe("JSON as Python writes it", () => {
  it("has words that become null, outside of texts", () => {
    const text = '{"a":[NaN,-Infinity,Infinity,1],"NaN":"Infinity \\" NaN","b\\\\":NaN}';
    expect(parseLenient(text)).toEqual({ a: [null, null, null, 1], NaN: 'Infinity " NaN', "b\\": null });
  });

  it("is read as JSON.parse reads it, and with one such word as if that were null", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        expect(parseLenient(text)).toEqual(JSON.parse(text));
        expect(parseLenient(`[${text},NaN]`)).toEqual([JSON.parse(text), null]);
      }),
    );
  });

  it.each(["", "{", '{"a":NaN', '"', '"\\"', "[NaN", "Nothing", "NaNny", '{"a":"NaN}'])("is not %j", (text) => {
    expect(parseLenient(text)).toBeUndefined();
  });

  it.each(["x", '\\"', "\\\\", "é", "NaN "])("takes little time with a text of many %j", (part) => {
    const text = part.repeat(10_000_000 / part.length);
    const started = performance.now();
    expect(parseLenient(`{"a":NaN,"b":"${text}"}`)).toMatchObject({ a: null });
    expect(parseLenient(`{"a":NaN,"b":"${text}`)).toBeUndefined();
    expect(performance.now() - started).toBeLessThan(5_000);
  });
});
