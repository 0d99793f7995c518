import { describe, expect, test } from "vitest";
import { MAX_CLASS_NAME, MAX_NODES } from "../../schemas/limits.ts";
import { checkPrompt, promptNeeds } from "../../schemas/prompt.ts";

const node = (inputs: Record<string, unknown> = {}, class_type = "KSampler") => ({ class_type, inputs });

/** `id: reason` of each listed error. */
function blamed(prompt: Record<string, unknown>): string[] {
  const check = checkPrompt(prompt);
  if (check.ok) return [];
  return [...check.nodeErrors].flatMap(([id, list]) => list.map(({ reason }) => `${id}: ${reason}`));
}

/** A chain of nodes, each of which reads the one before. */
const chain = (length: number): Record<string, unknown> =>
  Object.fromEntries(Array.from({ length }, (_, i) => [`n${i}`, node(i === 0 ? {} : { from: [`n${i - 1}`, 0] })]));

describe("a node", () => {
  test.each([
    ["null", null],
    ["a string", "KSampler"],
    ["an array", [1, 2]],
  ])("that is %s is none", (_, value) => {
    expect(blamed({ "1": value })).toEqual(["1: not_an_object"]);
  });

  test.each([undefined, 7, "", "x".repeat(MAX_CLASS_NAME + 1)])("with class_type %s is refused", (class_type) => {
    expect(blamed({ "1": { class_type, inputs: {} } })).toEqual(["1: invalid_class_type"]);
  });

  test.each([undefined, null, [], "{}"])("with inputs %s is refused", (inputs) => {
    expect(blamed({ "1": { class_type: "KSampler", inputs } })).toEqual(["1: invalid_inputs"]);
  });

  test("may carry _meta and a class name of 200 characters", () => {
    expect(checkPrompt({ "1": { ...node({}, "x".repeat(MAX_CLASS_NAME)), _meta: { title: "T" } } }).ok).toBe(true);
  });
});

describe("a link", () => {
  test("leads to a node of the graph, by an index from 0", () => {
    const prompt = (link: unknown) => ({ "1": node(), "2": node({ from: link }) });
    expect(blamed(prompt(["1", 0]))).toEqual([]);
    expect(blamed(prompt(["9", 0]))).toEqual(["2: unknown_node"]);
    expect(blamed(prompt(["1", -1]))).toEqual(["2: invalid_output_index"]);
    expect(blamed(prompt(["1", 0.5]))).toEqual(["2: invalid_output_index"]);
  });

  test("is not what other arrays are", () => {
    const inputs = { a: [1, 0], b: ["9"], c: ["9", 0, 1], d: ["9", "0"], e: [["9", 0]] };
    expect(checkPrompt({ "1": node(inputs) }).ok).toBe(true);
  });
});

describe("a cycle", () => {
  test.each([
    ["of one node", { a: node({ x: ["a", 0] }) }],
    ["of two", { a: node({ x: ["b", 0] }), b: node({ x: ["a", 0] }) }],
    ["behind an entry", { a: node({ x: ["b", 0] }), b: node({ x: ["c", 0] }), c: node({ x: ["b", 1] }) }],
    ["behind a finished branch", { z: node(), a: node({ y: ["z", 0], x: ["b", 0] }), b: node({ x: ["a", 0] }) }],
  ])("%s is refused", (_, prompt) => {
    expect(blamed(prompt).map((text) => text.split(": ")[1])).toEqual(["cycle"]);
  });

  test("is not what two ways to the same node are", () => {
    const diamond = {
      a: node(),
      b: node({ x: ["a", 0] }),
      c: node({ x: ["a", 0] }),
      d: node({ x: ["b", 0], y: ["c", 0] }),
    };
    expect(checkPrompt(diamond).ok).toBe(true);
  });

  test("is looked for without a stack: a chain of 5,000 nodes passes, closed it does not", () => {
    expect(checkPrompt(chain(MAX_NODES)).ok).toBe(true);
    expect(blamed({ ...chain(MAX_NODES), n0: node({ from: [`n${MAX_NODES - 1}`, 0] }) })).toHaveLength(1);
  });
});

describe("strangers' names", () => {
  const parsed = (text: string) => JSON.parse(text) as Record<string, unknown>;

  test.each(["__proto__", "constructor", "toString", "hasOwnProperty"])("node %s is a node like any other", (id) => {
    const check = checkPrompt(
      parsed(
        `{"${id}":{"class_type":"A","inputs":{"__proto__":["${id}x",0]}},"${id}x":{"class_type":"B","inputs":{}}}`,
      ),
    );
    expect(check.ok && [...check.prompt.keys()]).toEqual([id, `${id}x`]);
    expect(check.ok && check.prompt.get(id)?.inputs.get("__proto__")).toEqual([`${id}x`, 0]);
    expect(({} as Record<string, unknown>).class_type).toBeUndefined();
  });

  test.each(["__proto__", "constructor", "toString"])(
    "a link to %s leads nowhere where there is no such node",
    (id) => {
      expect(blamed({ "1": node({ x: [id, 0] }) })).toEqual(["1: unknown_node"]);
    },
  );

  test("__proto__ as a broken node is blamed by its name", () => {
    expect(blamed(parsed(`{"__proto__":5}`))).toEqual(["__proto__: not_an_object"]);
  });
});

describe("the whole graph", () => {
  test("has at least one node and at most 5,000", () => {
    expect(checkPrompt({})).toMatchObject({ ok: false, message: "The prompt has no nodes." });
    expect(checkPrompt(chain(MAX_NODES + 1))).toMatchObject({
      ok: false,
      message: expect.stringContaining("5001 nodes"),
    });
  });

  test("as a UI export is recognised and named as such", () => {
    const check = checkPrompt({ nodes: [{ id: 1, type: "KSampler" }], links: [], version: 0.4 });
    expect(check).toMatchObject({ ok: false, message: expect.stringContaining("UI export") });
    expect(blamed({ nodes: node(), links: node() })).toEqual([]);
  });

  test("lists at most 100 node errors and says how many there are", () => {
    const prompt = Object.fromEntries(Array.from({ length: 150 }, (_, i) => [`n${i}`, 0]));
    expect(blamed(prompt)).toHaveLength(100);
    expect(checkPrompt(prompt)).toMatchObject({ message: "The prompt has 150 errors." });
  });
});

test("needs are the classes and model files of the graph, each once, sorted", () => {
  const check = checkPrompt({
    "1": node({ ckpt_name: "sd/b.safetensors", text: "a picture.png" }, "Load"),
    "2": node({ name: "a.GGUF", again: "sd/b.safetensors", from: ["1", 0], n: 4 }, "Sample"),
    "3": node({ long: `${"x".repeat(300)}.ckpt`, image: "https://example.com/not-a-model.bin" }, "Load"),
  });
  expect(check.ok && promptNeeds(check.prompt)).toEqual({
    classes: ["Load", "Sample"],
    models: ["a.GGUF", "sd/b.safetensors"],
  });
});
