import { describe, expect, test } from "vitest";
import { checkTarget } from "../../schemas/targets.ts";

const RULES = { ownHosts: ["darkroom.example.com"], loopback: false };
const allowed = (text: string, rules = RULES) => checkTarget(text, rules).ok;

test.each([
  "https://example.com",
  "https://example.com/hook?x=1#y",
  "https://EXAMPLE.com./hook",
  "https://sub.domain.example.co.uk/",
  "https://example.com:443/",
  "https://example.com:1024/",
  "https://example.com:8443/",
  "https://example.com:65535/",
  "https://xn--bcher-kva.example/",
  "https://bücher.example/",
  "https://local.example.com/",
  "https://localhost.example.com/",
  "https://notlocal.org/",
  "https://mylocalhost.net/",
  "https://other.darkroom.example.com/",
  "https://8.8.8.8/",
  "https://134744072/",
  "https://0x08080808/",
  "https://010.010.010.010/",
  "https://9.255.255.255/",
  "https://11.0.0.1/",
  "https://172.15.255.255/",
  "https://172.32.0.1/",
  "https://100.63.255.255/",
  "https://100.128.0.1/",
  "https://192.167.255.255/",
  "https://192.169.0.1/",
  "https://198.17.255.255/",
  "https://198.20.0.1/",
  "https://223.255.255.254/",
  "https://[2606:4700:4700::1111]/",
  "https://[2a00:1450:4001:82a::200e]:8443/",
  "https://[64:ff9b::808:808]/",
])("%s may be called", (text) => {
  expect(checkTarget(text, RULES)).toMatchObject({ ok: true });
});

describe("is refused by its form:", () => {
  test.each([
    ["", "absolute"],
    ["example.com/hook", "absolute"],
    ["//example.com/", "absolute"],
    ["https://", "absolute"],
    ["https://exa mple.com/", "white space"],
    [" https://example.com/", "white space"],
    ["https://example.com/\n", "white space"],
    ["https://exam\tple.com/", "white space"],
    ["https://example.com/\u00a0", "white space"],
    ["https:\\\\example.com\\", "backslash"],
    ["https://example.com\\@127.0.0.1/", "backslash"],
    ["https://example.com/\u0000", "control"],
    ["https://example.com/\u007f", "control"],
    ["http://example.com/", "https"],
    ["ftp://example.com/", "https"],
    ["file:///etc/passwd", "https"],
    ["javascript:alert(1)", "https"],
    ["data:text/plain,x", "https"],
    ["https://user@example.com/", "user information"],
    ["https://user:pass@example.com/", "user information"],
    ["https://:pass@example.com/", "user information"],
    ["https://example.com:80/", "port"],
    ["https://example.com:22/", "port"],
    ["https://example.com:0/", "port"],
    ["https://example.com:1023/", "port"],
    [`https://example.com/${"x".repeat(2048)}`, "2048"],
  ])("%j", (text, rule) => {
    expect(checkTarget(text, RULES)).toMatchObject({ ok: false, rule: expect.stringContaining(rule) });
  });
});

test.each([
  "https://localhost/",
  "https://LOCALHOST./",
  "https://api.localhost/",
  "https://printer.local/",
  "https://printer.LOCAL./",
  "https://metadata.google.internal/",
  "https://internal/",
  "https://a.localdomain/",
  "https://nas.home.arpa/",
  "https://intranet/",
  "https://intranet./",
  "https://.example.com/",
  "https://a..example.com/",
  "https://darkroom.example.com/v1/jobs",
  "https://darkroom.example.com./v1/jobs",
  "https://DARKROOM.EXAMPLE.COM:8443/",
  "https://darkroom%2eexample.com/",
])("the name in %s is not called", (text) => {
  expect(allowed(text)).toBe(false);
});

test.each([
  "0.0.0.0",
  "0.1.2.3",
  "10.0.0.1",
  "10.255.255.255",
  "100.64.0.1",
  "100.127.255.255",
  "127.0.0.1",
  "127.1",
  "2130706433",
  "0x7f000001",
  "0177.0.0.1",
  "127.255.255.254",
  "169.254.169.254",
  "0xa9fea9fe",
  "172.16.0.1",
  "172.31.255.255",
  "192.0.0.1",
  "192.0.2.1",
  "192.88.99.1",
  "192.168.0.1",
  "192.168.255.255",
  "3232235521",
  "198.18.0.1",
  "198.19.255.255",
  "198.51.100.7",
  "203.0.113.7",
  "224.0.0.1",
  "239.255.255.255",
  "240.0.0.1",
  "255.255.255.255",
  "[::]",
  "[::1]",
  "[0:0:0:0:0:0:0:1]",
  "[::ffff:127.0.0.1]",
  "[::ffff:8.8.8.8]",
  "[::8.8.8.8]",
  "[::ffff:0:8.8.8.8]",
  "[64:ff9b::10.0.0.1]",
  "[64:ff9b::7f00:1]",
  "[64:ff9b:1::808:808]",
  "[100::1]",
  "[2001::1]",
  "[2001:0:808:808::1]",
  "[2001:2::1]",
  "[2001:20::1]",
  "[2001:db8::1]",
  "[2002:808:808::1]",
  "[2002:7f00:1::]",
  "[3fff::1]",
  "[3fff:fff::1]",
  "[4000::1]",
  "[5f00::1]",
  "[fc00::1]",
  "[fd12:3456:789a::1]",
  "[fe80::1]",
  "[fec0::1]",
  "[ff02::1]",
])("the address %s is not called", (host) => {
  expect(allowed(`https://${host}/`)).toBe(false);
});

describe("the local start's switch", () => {
  const local = { ...RULES, loopback: true };

  test.each(["http://localhost:3000/hook", "http://127.0.0.1:80/", "https://[::1]:8443/", "http://127.9.9.9/"])(
    "allows %s",
    (text) => {
      expect(allowed(text, local)).toBe(true);
      expect(allowed(text)).toBe(false);
    },
  );

  test.each([
    "http://example.com/",
    "http://10.0.0.1/",
    "http://localhost.example.com/",
    "http://user@localhost/",
    "ftp://localhost/",
    "https://192.168.0.1/",
  ])("allows nothing more: %s", (text) => {
    expect(allowed(text, local)).toBe(false);
  });
});

test.each([
  "https://localhost../",
  "https://a.internal../",
  "https://darkroom.example.com../",
  "https://example.com/\u0085",
])("two dots at the end or a control character hide nothing: %s", (text) => {
  expect(checkTarget(text, { ownHosts: ["darkroom.example.com"], loopback: false }).ok).toBe(false);
});

test("an own host that is an address is refused like a name", () => {
  expect(checkTarget("https://8.8.8.8/", { ownHosts: ["8.8.8.8"], loopback: false }).ok).toBe(false);
});
