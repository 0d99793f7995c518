import fc from "fast-check";
import { expect, test } from "vitest";
import { isPublicAddress } from "../../schemas/targets.ts";
import { RULE, verdictOf } from "./target-cases.ts";

test.each([
  "93.184.216.34",
  "1.1.1.1",
  "192.0.0.9",
  "172.32.0.1",
  "2606:4700:4700::1111",
  "2001:20::1",
  "64:ff9b::1.1.1.1",
])("%s is public", (address) => {
  expect(isPublicAddress(address)).toBe(true);
});

test.each([
  "0.0.0.0",
  "10.0.0.1",
  "100.64.0.1",
  "127.0.0.1",
  "169.254.169.254",
  "172.16.0.1",
  "192.168.0.1",
  "224.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::ffff:127.0.0.1",
  "::ffff:93.184.216.34",
  "64:ff9b::10.0.0.1",
  "64:ff9b:1::1.1.1.1",
  "2001:db8::1",
  "2002:a00:1::",
  "fc00::1",
  "fd00::1",
  "fe80::1",
  "fe80::1%eth0",
  "ff02::1",
])("%s is not public", (address) => {
  expect(isPublicAddress(address)).toBe(false);
});

test.each(["", " ", "localhost", "example.com", "1.1.1.1.1", "1.1.1.1/32", "[", "[]", "::g", "1.1.1.1:80"])(
  "%j is no address",
  (text) => {
    expect(isPublicAddress(text)).toBe(false);
  },
);

test("an address is judged as the URL that spells it out", () => {
  const url = (host: string) => verdictOf(`https://${host}/`) !== RULE.address;
  fc.assert(
    fc.property(fc.ipV4(), fc.ipV6(), (v4, v6) => {
      expect(isPublicAddress(v4)).toBe(url(v4));
      expect(isPublicAddress(v6)).toBe(url(`[${v6}]`));
    }),
    { numRuns: 2000 },
  );
});
