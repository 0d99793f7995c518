import type { LookupAddress } from "node:dns";
import { isIP } from "node:net";
import { describe, expect, test } from "vitest";
import { aServer, fileOf, filesUnder, messageOf, sending, someInputs } from "./inputs-harness.ts";

/** Where a runner lets a customer's URL lead it. */

/** A resolver that gives one answer after the other, and the names it was asked for. */
function answering(...answers: readonly (readonly string[])[]) {
  const asked: string[] = [];
  const resolve = async (name: string): Promise<LookupAddress[]> => {
    const answer = answers[Math.min(asked.push(name), answers.length) - 1] ?? [];
    return answer.map((address) => ({ address, family: isIP(address) }));
  };
  return { asked, resolve };
}

const NOT_PUBLIC = "is refused: its address is not publicly reachable.";
const PUBLIC = "93.184.216.34";

describe("a public name", () => {
  test.each<[string[]]>([
    [["127.0.0.1"]],
    [["10.0.0.1"]],
    [["169.254.169.254"]],
    [["100.64.0.1"]],
    [["0.0.0.0"]],
    [["::1"]],
    [["::"]],
    [["fd00::1"]],
    [["fe80::1"]],
    [["::ffff:127.0.0.1"]],
    [["::ffff:7f00:1"]],
    [["64:ff9b::7f00:1"]],
    [["not-an-address"]],
    [[PUBLIC, "127.0.0.1"]],
    [["127.0.0.1", PUBLIC]],
    [["2606:4700:4700::1111", PUBLIC, "fd00::1"]],
  ])("that leads to %j is not called, not even where loopback is allowed", async (addresses) => {
    const server = await aServer(sending("secret"));
    for (const loopback of [false, true]) {
      const { resolve, asked } = answering(addresses);
      const inputs = await someInputs({ loopback, resolve });
      const fetched = await inputs.one(`https://files.example.com:${server.port}/a?token=hush`);
      expect(messageOf(fetched)).toBe(`The input at files.example.com ${NOT_PUBLIC}`);
      expect(asked).toEqual(["files.example.com"]);
      expect(await filesUnder(inputs.folder)).toEqual([]);
    }
    expect(server.connections.opened).toBe(0);
  });

  test("without an address is said to have none", async () => {
    const none = "could not be reached: its host name has no address.";
    const empty = await someInputs({ resolve: async () => [] });
    expect(messageOf(await empty.one("https://files.example.com/"))).toBe(`The input at files.example.com ${none}`);
    const failing = await someInputs({
      resolve: async () => {
        throw Object.assign(new Error("getaddrinfo ENOTFOUND at 10.0.0.53"), { code: "ENOTFOUND" });
      },
    });
    expect(messageOf(await failing.one("https://files.example.com/"))).toBe(`The input at files.example.com ${none}`);
  });
});

test.each([
  ["http://example.com/a", "The input at example.com is refused: it must use https."],
  ["https://user:hush@example.com/", "The input at example.com is refused: it must not contain user information."],
  ["https://example.com:22/", "The input at example.com is refused: its port must be 443 or above 1023."],
  ["https://10.0.0.1/", `The input at 10.0.0.1 ${NOT_PUBLIC}`],
  ["https://[::1]/", `The input at [::1] ${NOT_PUBLIC}`],
  ["https://[::ffff:10.0.0.1]/", `The input at [::ffff:a00:1] ${NOT_PUBLIC}`],
  ["http://127.0.0.1:8188/", "The input at 127.0.0.1 is refused: it must use https."],
  ["https://localhost/", "The input at localhost is refused: its host name is not publicly reachable."],
  ["https://own.example.com/", "The input at own.example.com is refused: it must not point to this service."],
  ["file:///etc/passwd", "An input is refused: it must use https."],
  ["data:image/png;base64,hush", "An input is refused: it must use https."],
  ["https://", "An input is refused: it must be a valid absolute URL."],
  [`https://${"x".repeat(300)}.com/`, expect.stringMatching(/^An input is refused: its host name must have/)],
])("%s is refused unasked", async (url, message) => {
  const { resolve, asked } = answering(["127.0.0.1"]);
  const inputs = await someInputs({ loopback: false, ownHosts: ["own.example.com"], resolve });
  const fetched = await inputs.one(url);
  expect(fetched).toMatchObject({ ok: false, reason: "refused", url, message });
  expect(messageOf(fetched)).not.toContain("hush");
  expect(asked).toEqual([]);
});

test("a name is resolved once for each connection, so a second answer leads nowhere", async () => {
  const server = await aServer(sending("bytes"));
  const { resolve, asked } = answering(["127.0.0.1"], ["10.0.0.1"]);
  const inputs = await someInputs({ resolve });
  const url = `http://localhost:${server.port}/a`;
  expect(fileOf(await inputs.one(url)).size_bytes).toBe(5);
  expect(asked).toEqual(["localhost"]);
  expect(messageOf(await inputs.one(url))).toBe(`The input at localhost ${NOT_PUBLIC}`);
  expect(server.connections.opened).toBe(1);
});

test("the system's own resolver is asked by default", async () => {
  const server = await aServer(sending("bytes"));
  const inputs = await someInputs();
  expect(fileOf(await inputs.one(`http://localhost:${server.port}/a`)).size_bytes).toBe(5);
});

test("proxies of the environment are not used, and nothing of the runner goes along", async () => {
  const proxy = await aServer(sending("proxied"));
  const server = await aServer(sending("bytes", { "set-cookie": "a=b" }));
  const inputs = await someInputs();
  process.env.HTTP_PROXY = process.env.http_proxy = proxy.url();
  try {
    await inputs.one(server.url("/a"));
    await inputs.one(server.url("/a?b#c"));
  } finally {
    delete process.env.HTTP_PROXY;
    delete process.env.http_proxy;
  }
  expect(proxy.connections.opened).toBe(0);
  expect(server.connections.opened).toBe(2);
  const headers = {
    host: `127.0.0.1:${server.port}`,
    "user-agent": "darkroom-runner/1",
    accept: "*/*",
    "accept-encoding": "identity",
    connection: "close",
  };
  expect(server.requests).toEqual([
    { path: "/a", headers },
    { path: "/a?b", headers },
  ]);
});

describe("a redirect", () => {
  test.each([
    ["http://169.254.169.254/latest/meta-data", "redirects to a URL that is refused: it must use https."],
    ["https://169.254.169.254/", `redirects to a URL that ${NOT_PUBLIC}`],
    ["https://metadata.internal/", "redirects to a URL that is refused: its host name is not publicly reachable."],
    ["file:///etc/passwd", "redirects to a URL that is refused: it must use https."],
    ["https://user:hush@example.com/", "redirects to a URL that is refused: it must not contain user information."],
    ["https://example.com:25/", "redirects to a URL that is refused: its port must be 443 or above 1023."],
    ["//10.0.0.1/hush", "redirects to a URL that is refused: it must use https."],
    ["https://rebound.example.com/hush", `redirects to a URL that ${NOT_PUBLIC}`],
    ["http://:hush:", "answered with status 302."],
    ["", "redirects more than 5 times."],
  ])("to %s is not followed", async (location, why) => {
    const server = await aServer((_request, response) => response.writeHead(302, { location }).end("hush"));
    const inputs = await someInputs({ resolve: answering(["10.0.0.1"]).resolve });
    const fetched = await inputs.one(server.url("/a?token=hush"));
    expect(messageOf(fetched)).toBe(`The input at 127.0.0.1 ${why}`);
    expect(await filesUnder(inputs.folder)).toEqual([]);
  });

  test("without a place is no file", async () => {
    const server = await aServer((_request, response) => response.writeHead(301).end("bytes"));
    expect(messageOf(await (await someInputs()).one(server.url()))).toBe(
      "The input at 127.0.0.1 answered with status 301.",
    );
  });

  test("is followed five times, and not a sixth time", async () => {
    const server = await aServer((request, response) => {
      const left = Number(request.url?.slice(1));
      if (left === 0) response.end("bytes");
      else response.writeHead([301, 302, 303, 307, 308][left % 5] ?? 302, { location: `${left - 1}` }).end();
    });
    const inputs = await someInputs();
    expect(fileOf(await inputs.one(server.url("/5"))).size_bytes).toBe(5);
    expect(server.requests).toHaveLength(6);
    expect(messageOf(await inputs.one(server.url("/6")))).toBe("The input at 127.0.0.1 redirects more than 5 times.");
    expect(server.requests).toHaveLength(12);
  });

  test("has its name resolved and judged anew", async () => {
    const server = await aServer((request, response) => {
      if (request.url === "/a") response.writeHead(302, { location: "/b" }).end();
      else response.end("secret");
    });
    const inputs = await someInputs({ resolve: answering(["127.0.0.1"], ["192.168.0.1"]).resolve });
    const fetched = await inputs.one(`http://localhost:${server.port}/a`);
    expect(messageOf(fetched)).toBe(`The input at localhost redirects to a URL that ${NOT_PUBLIC}`);
    expect(server.requests.map(({ path }) => path)).toEqual(["/a"]);
  });

  test("that ends in a failure says so", async () => {
    const server = await aServer((request, response) => {
      if (request.url === "/a") response.writeHead(302, { location: "/gone?hush" }).end();
      else response.writeHead(404).end();
    });
    expect(messageOf(await (await someInputs()).one(server.url("/a")))).toBe(
      "The input at 127.0.0.1 redirects to a URL that answered with status 404.",
    );
  });
});
