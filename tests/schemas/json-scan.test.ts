import { describe, expect, test } from "vitest";
import { scanJson } from "../../schemas/json-scan.ts";
import { MAX_BODY_BYTES, MAX_JSON_DEPTH, MAX_JSON_VALUES } from "../../schemas/limits.ts";
import { random } from "./random.ts";

const LOOSE = { maxValues: 1e9, maxDepth: 1e9 };
const bytes = (text: string) => new TextEncoder().encode(text);

/** The text of the wanted member, as the scan found it. */
function found(text: string, member = "prompt"): string | undefined {
  const scan = scanJson(bytes(text), LOOSE, member);
  if (!scan.ok) throw new Error(scan.reason);
  return scan.span && new TextDecoder().decode(bytes(text).subarray(...scan.span));
}

/** The smallest bound that lets a text pass. */
function least(text: string, bound: "maxValues" | "maxDepth"): number {
  for (let n = 0; ; n++) if (scanJson(bytes(text), { ...LOOSE, [bound]: n }).ok) return n;
}

describe("the span of a member", () => {
  test.each([
    ["an object", `{"prompt":{"1":{"a":[1,2]}},"x":1}`, `{"1":{"a":[1,2]}}`],
    [
      "a string with braces, quotes and commas",
      String.raw`{"prompt":"}],{\"prompt\":1","x":2}`,
      String.raw`"}],{\"prompt\":1"`,
    ],
    ["a number at the end", `{"x":1,"prompt":-1.5e3}`, "-1.5e3"],
    ["null", `{"prompt":null}`, "null"],
    ["a value in white space, without it", ` { "prompt" :\t\n {"a" : 1 } \r\n, "x":2}`, `{"a" : 1 }`],
    ["the last of duplicates", `{"prompt":{"a":1},"x":0,"prompt":{"b":2}}`, `{"b":2}`],
    ["a key that is written with an escape", String.raw`{"\u0070rompt":{"a":1}}`, `{"a":1}`],
    ["an escaped duplicate, which wins as in JSON.parse", String.raw`{"prompt":1,"pr\u006fmpt":2}`, "2"],
    ["words beyond ASCII before it", `{"é\u{1f600}":"ü","prompt":["ß"]}`, `["ß"]`],
    ["a backslash at the end of the string before it", String.raw`{"x":"\\","prompt":7}`, "7"],
  ])("is found: %s", (_, text, span) => {
    expect(found(text)).toBe(span);
    expect(JSON.parse(found(text) ?? "")).toEqual(JSON.parse(text).prompt);
  });

  test.each([
    ["a nested key", `{"x":{"prompt":1},"y":[{"prompt":2}]}`],
    ["a value of that name", `{"x":"prompt","y":["prompt"]}`],
    ["a longer or shorter key", `{"prompts":1,"promp":2,"Prompt":3," prompt":4}`],
    ["an array", `["prompt",{"prompt":1}]`],
    ["no value at all", `{"prompt":}`],
    ["an empty text", ""],
  ])("is not found: %s", (_, text) => {
    expect(found(text)).toBeUndefined();
  });

  test("keeps numbers that no double holds", () => {
    expect(found(`{"prompt":{"seed":18446744073709551615}}`)).toBe(`{"seed":18446744073709551615}`);
  });
});

describe("of random JSON", () => {
  /** Any JSON value; objects have keys that collide with the wanted one, plain and escaped. */
  function anyJson(next: () => number, depth: number): string {
    const pick = (n: number) => Math.floor(next() * n);
    const space = () => ["", " ", "\n\t", "  "][pick(4)] ?? "";
    const words = ["prompt", "a{b", "]", '"', "\\", "ä,", "", "x:y"];
    const word = () => {
      const text = JSON.stringify(words[pick(words.length)]);
      return pick(3) === 0 ? text.replace("p", String.raw`\u0070`) : text;
    };
    const items = (one: () => string) => Array.from({ length: pick(4) }, () => space() + one() + space()).join(",");
    const kind = pick(depth === 0 ? 4 : 7);
    if (kind === 0) return String(pick(1000) - 500);
    if (kind === 1) return word();
    if (kind === 2) return ["true", "false", "null"][pick(3)] ?? "null";
    if (kind === 3) return "1.25E-7";
    if (kind === 4) return `[${items(() => anyJson(next, depth - 1))}]`;
    return `{${items(() => `${word()}${space()}:${space()}${anyJson(next, depth - 1)}`)}}`;
  }

  /** Values and depth of the text itself: JSON.parse drops duplicate keys, so they are counted as pairs. */
  function measured(text: string): { values: number; depth: number } {
    const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
    let depth = 0;
    let deepest = 0;
    let values = 0;
    for (const [i, token] of tokens.entries()) {
      if (token === "{" || token === "[") deepest = Math.max(deepest, ++depth);
      if (token === "}" || token === "]") depth--;
      if (!/^[}\],:]$/.test(token) && tokens[i + 1] !== ":") values++;
    }
    return { values, depth: deepest };
  }

  test("values, depth and the member's span are those of the parser", () => {
    for (let seed = 1; seed <= 3_000; seed++) {
      const next = random(seed);
      const text = `{"first":0${seed % 2 ? `,"prompt":${anyJson(next, 3)}` : ""},"more":${anyJson(next, 4)}}`;
      const parsed = JSON.parse(text);
      const span = found(text);
      expect(span === undefined ? undefined : JSON.parse(span), `seed ${seed}: ${text}`).toEqual(parsed.prompt);
      if (seed % 10 === 0) {
        const { values, depth } = measured(text);
        expect([least(text, "maxValues"), least(text, "maxDepth")], `seed ${seed}: ${text}`).toEqual([values, depth]);
      }
    }
  });

  test("a root with any keys gives what JSON.parse gives", () => {
    for (let seed = 1; seed <= 2_000; seed++) {
      const text = anyJson(random(seed), 4);
      const parsed = JSON.parse(text);
      const isObject = typeof parsed === "object" && parsed !== null && !Array.isArray(parsed);
      const span = found(text);
      expect(span === undefined ? undefined : JSON.parse(span), `seed ${seed}: ${text}`).toEqual(
        isObject && Object.hasOwn(parsed, "prompt") ? parsed.prompt : undefined,
      );
    }
  });
});

describe("bounds", () => {
  const LIMITS = { maxValues: MAX_JSON_VALUES, maxDepth: MAX_JSON_DEPTH };

  test("of depth are exact", () => {
    const nested = (depth: number) => bytes("[".repeat(depth) + "]".repeat(depth));
    expect(scanJson(nested(100), LIMITS).ok).toBe(true);
    expect(scanJson(nested(101), LIMITS)).toEqual({ ok: false, reason: "too_deep" });
  });

  test("of values are exact, the outermost included", () => {
    const list = (length: number) => bytes(`[${Array(length).fill("0").join(",")}]`);
    expect(scanJson(list(MAX_JSON_VALUES - 1), LIMITS).ok).toBe(true);
    expect(scanJson(list(MAX_JSON_VALUES), LIMITS)).toEqual({ ok: false, reason: "too_many_values" });
  });

  test("do not count keys, braces and commas inside strings", () => {
    expect(least(`{"a,b":"[{,,,}]"}`, "maxValues")).toBe(2);
    expect(least(`{"a,b":"[{,,,}]"}`, "maxDepth")).toBe(1);
  });

  test("refuse a 10 MB list of empty objects after a look at its beginning", () => {
    const body = bytes(`[${"{},".repeat(Math.floor(MAX_BODY_BYTES / 3) - 2)}{}]`);
    expect(body.length).toBeGreaterThan(10_000_000);
    let looked = 0;
    const watched = new Proxy(body, {
      get(target, name) {
        if (typeof name === "string" && /^\d+$/.test(name)) looked++;
        return Reflect.get(target, name, target);
      },
    });
    expect(scanJson(watched, LIMITS)).toEqual({ ok: false, reason: "too_many_values" });
    expect(looked).toBeLessThan(4 * MAX_JSON_VALUES);
  });

  test("refuse ten million open brackets at once", () => {
    expect(scanJson(new Uint8Array(MAX_BODY_BYTES).fill(0x5b), LIMITS)).toEqual({ ok: false, reason: "too_deep" });
  });

  test("end on texts that are cut off anywhere", () => {
    const text = String.raw`{"prompt":{"a":"\u0070\\"},"b":[1,2]}`;
    for (let end = 0; end <= text.length; end++)
      expect(scanJson(bytes(text.slice(0, end)), LIMITS, "prompt").ok).toBe(true);
  });
});
