import { describe, expect, test } from "vitest";
import { checkTarget, isLoopbackHost } from "../../schemas/targets.ts";
import { DISPUTED_CASES, RULE, RULES, TARGET_CASES, verdictOf } from "./target-cases.ts";

test.each(TARGET_CASES)("judges %j: %s", (text, verdict) => {
  expect(verdictOf(text)).toBe(verdict);
});

test.each(DISPUTED_CASES)("refuses %j or calls %s, nothing else", (text, host) => {
  expect([RULE.form, `calls ${host}`]).toContain(verdictOf(text));
});

test("the table judges each URL once, and breaks every rule", () => {
  const texts = [...TARGET_CASES, ...DISPUTED_CASES].map(([text]) => text);
  expect(new Set(texts).size).toBe(texts.length);
  const verdicts = TARGET_CASES.map(([, verdict]) => verdict);
  expect(verdicts).toEqual(expect.arrayContaining(Object.values(RULE)));
});

test("the caller gets the URL as it was judged", () => {
  expect(checkTarget("https:EXAMPLE.com:443/hook?a#b", RULES)).toEqual({
    ok: true,
    url: new URL("https://example.com/hook?a#b"),
  });
});

describe("the local start's switch", () => {
  const local = { ...RULES, loopback: true };

  test.each([
    ["http://localhost:3000/hook", RULE.scheme],
    ["https://localhost/", RULE.suffix],
    ["http://127.0.0.1:80/", RULE.scheme],
    ["http://127.9.9.9/", RULE.scheme],
    ["http://0x7f.1:22/", RULE.scheme],
    ["https://[::1]:8443/", RULE.address],
  ])("allows %s", (text, rule) => {
    expect(verdictOf(text)).toBe(rule);
    expect(verdictOf(text, local)).toBe(`calls ${new URL(text).host}`);
  });

  test.each([
    ["http://example.com/", RULE.scheme],
    ["http://10.0.0.1/", RULE.scheme],
    ["http://0.0.0.0/", RULE.scheme],
    ["http://[::ffff:127.0.0.1]/", RULE.scheme],
    ["http://[64:ff9b::127.0.0.1]/", RULE.scheme],
    ["http://localhost.example.com/", RULE.scheme],
    ["http://api.localhost/", RULE.scheme],
    ["http://user@localhost/", RULE.user],
    ["http://@localhost/", RULE.user],
    ["http://localhost/ ", RULE.characters],
    ["http://localhost\\@example.com/", RULE.characters],
    ["ftp://localhost/", RULE.scheme],
    ["ws://127.0.0.1/", RULE.scheme],
    ["https://192.168.0.1/", RULE.address],
    ["https://[64:ff9b::127.0.0.1]/", RULE.address],
    ["https://api.localhost/", RULE.suffix],
  ])("allows nothing more: %s", (text, rule) => {
    expect(verdictOf(text, local)).toBe(rule);
  });

  test("changes no verdict on a target that is not loopback", () => {
    for (const [text, verdict] of TARGET_CASES) {
      if (URL.canParse(text) && isLoopbackHost(new URL(text).hostname)) continue;
      expect(verdictOf(text, local)).toBe(verdict);
    }
  });
});
