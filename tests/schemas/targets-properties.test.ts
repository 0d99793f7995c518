import fc from "fast-check";
import { expect, test } from "vitest";
import { checkTarget } from "../../schemas/targets.ts";
import { RULE, RULES, TARGET_CASES, verdictOf } from "./target-cases.ts";

const check = (property: fc.IProperty<[...unknown[]]>): void => fc.assert(property, { numRuns: 2000 });

const judge = (host: string): string => verdictOf(`https://${host}/`);
/** Without the host that it is called by. */
const ruleOf = (host: string): string => judge(host).replace(/^calls .*/, "called");

const bytesOf = (value: number): number[] => [value >>> 24, (value >>> 16) & 255, (value >>> 8) & 255, value & 255];
const plain = (value: number): string => bytesOf(value).join(".");
const halves = (value: number): string => `${(value >>> 16).toString(16)}:${(value & 0xffff).toString(16)}`;

/** The first halves of ranges that have a rule. */
const RULED = [
  [0, 0],
  [10, 0],
  [100, 64],
  [127, 0],
  [169, 254],
  [172, 16],
  [192, 0],
  [192, 31],
  [192, 88],
  [192, 168],
  [198, 18],
  [198, 51],
  [203, 0],
  [224, 0],
  [255, 255],
].map(([first = 0, second = 0]) => ((first << 24) | (second << 16)) >>> 0);

/** An IPv4 address as a number, often in or beside a range that has a rule. */
const ipv4 = fc.oneof(
  fc.nat(0xffff_ffff),
  fc.tuple(fc.constantFrom(...RULED), fc.nat(0xffff)).map(([half, rest]) => half + rest),
  fc.tuple(fc.constantFrom(...RULED), fc.nat(0x3ff)).map(([half, rest]) => half + rest),
  fc.tuple(fc.constantFrom(...RULED), fc.integer({ min: -256, max: 256 })).map(([half, by]) => (half + by) >>> 0),
);

/** A number as the URL standard reads it in a host. */
const numeral = (value: number): fc.Arbitrary<string> =>
  fc.oneof(
    fc.constant(String(value)),
    fc.nat(3).map((zeros) => `0${"0".repeat(zeros)}${value.toString(8)}`),
    fc.nat(3).map((zeros) => `0x${"0".repeat(zeros)}${value.toString(16)}`),
  );

/** One to four numbers, the last of which fills what the others leave. */
const numerals = (value: number): fc.Arbitrary<string> =>
  fc.nat(3).chain((leading) => {
    const numbers = [...bytesOf(value).slice(0, leading), value % 2 ** (8 * (4 - leading))];
    return fc.tuple(...numbers.map(numeral)).map((parts) => parts.join("."));
  });

const WAYS: ((character: string) => string)[] = [
  (character) => character,
  (character) => character.toUpperCase(),
  (character) => `%${character.charCodeAt(0).toString(16)}`,
  (character) => String.fromCharCode(character.charCodeAt(0) + 0xfee0),
  (character) => `${character}\u2060`,
  (character) => (character === "." ? "\u3002" : `${character}\u200b`),
];

/** The same host with characters spelled in other ways, and perhaps a dot at its end. */
const dressed = (host: string): fc.Arbitrary<string> =>
  fc
    .tuple(
      fc.array(fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.nat(WAYS.length - 1)), {
        minLength: host.length,
        maxLength: host.length,
      }),
      fc.constantFrom("", ".", "\u3002", "%2e"),
    )
    .map(([ways, end]) => [...host].map((character, at) => WAYS[ways[at] ?? 0]?.(character)).join("") + end);

test("every spelling of an IPv4 address is judged as the plain one", () => {
  const spelled = ipv4.chain((value) => fc.tuple(fc.constant(value), numerals(value).chain(dressed)));
  const seen = new Set<string>();
  check(
    fc.property(spelled, ([value, host]) => {
      expect(judge(host)).toBe(judge(plain(value)));
      seen.add(ruleOf(host));
    }),
  );
  expect(seen).toEqual(new Set(["called", RULE.address]));
});

test("NAT64 of an IPv4 address is judged as that address", () => {
  check(
    fc.property(ipv4, (value) => {
      expect(ruleOf(`[64:ff9b::${plain(value)}]`)).toBe(ruleOf(plain(value)));
      expect(ruleOf(`[0064:FF9B:0:0:0::${halves(value)}]`)).toBe(ruleOf(plain(value)));
    }),
  );
});

test("no other IPv6 form of an IPv4 address is called, public or not", () => {
  check(
    fc.property(ipv4, (value) => {
      const forms = [
        `::ffff:${plain(value)}`,
        `::ffff:${halves(value)}`,
        `::${plain(value)}`,
        `::${halves(value)}`,
        `::ffff:0:${plain(value)}`,
        `64:ff9b:1::${plain(value)}`,
        `2002:${halves(value)}::1`,
        `2001:0:${halves(value)}::`,
        `2001::${halves(~value >>> 0)}`,
      ];
      for (const form of forms) expect(ruleOf(`[${form}]`)).toBe(RULE.address);
    }),
  );
});

test("case, dots, percent signs and Unicode change nothing about a name", () => {
  const spelled = fc.domain().chain((name) => fc.tuple(fc.constant(name), dressed(name)));
  check(
    fc.property(spelled, ([name, host]) => {
      fc.pre(judge(name) === `calls ${name.toLowerCase()}`);
      expect(judge(host).replace(/\.$/, "")).toBe(judge(name));
    }),
  );
});

test("no spelling of a name that has no public meaning is called", () => {
  const suffix = fc.constantFrom("local", "internal", "localhost", "localdomain", "home.arpa");
  const name = fc.oneof(
    suffix,
    fc.tuple(fc.domain(), suffix).map((parts) => parts.join(".")),
  );
  check(
    fc.property(
      name.filter(({ length }) => length <= 253).chain((whole) => dressed(whole)),
      (host) => {
        expect(judge(host)).toBe(RULE.suffix);
      },
    ),
  );
});

test("any text has a verdict, which says nothing of the text and holds for what the parser made of it", () => {
  const unit = fc.nat(0xffff).map((code) => String.fromCharCode(code));
  const character = fc.oneof(unit, fc.constantFrom(..."https:/@.[]%0x1l?#\\\u3002\u00ad"));
  const mutated = fc
    .tuple(fc.constantFrom(...TARGET_CASES.map(([text]) => text)), fc.nat(80), fc.nat(3), fc.array(character))
    .map(([text, at, taken, put]) => text.slice(0, at) + put.join("") + text.slice(at + taken));
  const joined = fc.array(character).map((characters) => characters.join(""));
  const text = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.webUrl({ validSchemes: ["https", "http"], withQueryParameters: true, withFragments: true }),
    joined,
    joined.map((rest) => `https://${rest}`),
    mutated,
  );
  const rules: string[] = Object.values(RULE);
  check(
    fc.property(text, (written) => {
      const result = checkTarget(written, RULES);
      if (!result.ok) {
        expect(rules).toContain(result.rule);
        return;
      }
      const { protocol, username, password, port, host, origin } = result.url;
      expect({ protocol, username, password }).toEqual({ protocol: "https:", username: "", password: "" });
      expect(port === "" || Number(port) >= 1024).toBe(true);
      expect(verdictOf(origin)).toBe(`calls ${host}`);
    }),
  );
});
