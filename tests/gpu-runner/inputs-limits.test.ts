import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, createServer as createSocketServer } from "node:net";
import { gzipSync } from "node:zlib";
import { describe, expect, test, vi } from "vitest";
import type { InputKind } from "../../gpu-runner/inputs/inputs.ts";
import {
  aServer,
  contentUnder,
  fileOf,
  filesUnder,
  messageOf,
  picture,
  sending,
  someInputs,
  temporaryUnder,
} from "./inputs-harness.ts";

const never = new AbortController().signal;
const anything = (url: string) => ({ url, kind: "any" as const });

/** Sends chunks for as long as they are taken. */
function flood(response: ServerResponse, chunk: Buffer): void {
  while (!response.destroyed && response.write(chunk));
  response.once("drain", () => flood(response, chunk));
}

describe("the size of a file", () => {
  test("is refused by what its server says, before it comes", async () => {
    const server = await aServer((_request, response) => {
      response.writeHead(200, { "content-length": 1001 }).flushHeaders();
    });
    const inputs = await someInputs();
    expect(messageOf(await inputs.one(server.url(), "any", 1000))).toBe(
      "The input at 127.0.0.1 is larger than 1000 bytes.",
    );
    await vi.waitFor(() => expect(server.connections.open).toBe(0));
  });

  test("is counted where its server says nothing, and the rest of an endless one does not come", async () => {
    const server = await aServer((_request, response) => flood(response, Buffer.alloc(16_384)));
    const inputs = await someInputs();
    expect(messageOf(await inputs.one(server.url(), "any", 1_000_000))).toBe(
      "The input at 127.0.0.1 is larger than 1000000 bytes.",
    );
    await vi.waitFor(() => expect(server.connections.open).toBe(0));
    expect(await filesUnder(inputs.folder)).toEqual([]);
  });

  test("may be exactly what is allowed", async () => {
    const server = await aServer(sending(Buffer.alloc(1000)));
    const inputs = await someInputs({ limits: { bytes: 1000 } });
    expect(fileOf(await inputs.one(server.url(), "any", 1000)).size_bytes).toBe(1000);
  });

  test("is bounded for all files of a job, whichever way they come", async () => {
    const server = await aServer((request, response) => {
      if (request.url === "/sized") response.writeHead(200, { "content-length": 400 });
      for (let n = 0; n < 4; n++) response.write(Buffer.alloc(100, request.url ?? ""));
      response.end();
    });
    const inputs = await someInputs({ limits: { bytes: 1000 } });
    const fetch = (...paths: string[]) =>
      inputs.fetch(
        paths.map((path) => anything(server.url(path))),
        never,
      );
    const tooMany = "The input at 127.0.0.1 brings the inputs of this job to more than 1000 bytes in all.";
    expect(await fetch("/a", "/b")).toMatchObject({ ok: true });
    expect(messageOf(await fetch("/a", "/b", "/c"))).toBe(tooMany);
    expect(messageOf(await fetch("/a", "/b", "/sized"))).toBe(tooMany);
    // The same bytes from elsewhere are bytes of the job, too.
    expect(await fetch("/a", "/a")).toMatchObject({ ok: true });
    expect(await temporaryUnder(inputs.folder)).toEqual([]);
  });

  test("counts for files that the cache already has", async () => {
    const server = await aServer((request, response) => {
      if (request.headers["if-none-match"]) response.writeHead(304).end();
      else response.writeHead(200, { etag: `"${request.url}"` }).end(Buffer.alloc(400, request.url ?? ""));
    });
    const first = await someInputs();
    for (const path of ["/a", "/b", "/c"]) fileOf(await first.one(server.url(path)));
    const inputs = await someInputs({ folder: first.folder, limits: { bytes: 1000 } });
    const wanted = ["/a", "/b", "/c"].map((path) => anything(server.url(path)));
    expect(messageOf(await inputs.fetch(wanted, never))).toMatch(/ to more than 1000 bytes in all\.$/);
    expect(messageOf(await inputs.one(server.url("/a"), "any", 399))).toMatch(/ is larger than 399 bytes\.$/);
    expect(await contentUnder(first.folder)).toHaveLength(3);
  });
});

describe("a job", () => {
  test("has at most so many URLs, of which one that is wanted twice counts and is fetched once", async () => {
    const server = await aServer(sending("bytes"));
    const inputs = await someInputs();
    const wanted = Array.from({ length: 32 }, (_, n) => anything(server.url(`/${n}`)));
    const fetched = await inputs.fetch([...wanted, ...wanted], never);
    expect(fetched.ok && [...fetched.files.keys()]).toHaveLength(32);
    expect(server.requests).toHaveLength(32);
    const more = await inputs.fetch([...wanted, anything(server.url("/more"))], never);
    expect(more).toMatchObject({ ok: false, reason: "refused", url: server.url("/more") });
    expect(messageOf(more)).toBe("A job may fetch at most 32 different URLs.");
    expect(server.requests).toHaveLength(32);
  });

  test("without URLs has its files at once", async () => {
    const inputs = await someInputs();
    expect(await inputs.fetch([], never)).toMatchObject({ ok: true, files: new Map() });
  });

  test("fetches so many at the same time", async () => {
    const waiting: ServerResponse[] = [];
    const server = await aServer((_request, response) => waiting.push(response));
    const inputs = await someInputs();
    const wanted = Array.from({ length: 10 }, (_, n) => anything(server.url(`/${n}`)));
    const fetching = inputs.fetch(wanted, never);
    const open: number[] = [];
    for (let n = 0; n < 10; n++) {
      await vi.waitFor(() => expect(server.requests).toHaveLength(Math.min(10, n + 4)));
      open.push(waiting.length);
      waiting.shift()?.end("bytes");
    }
    expect(await fetching).toMatchObject({ ok: true });
    expect(open).toEqual([4, 4, 4, 4, 4, 4, 4, 3, 2, 1]);
  });

  test("ends its other downloads with the first that fails", async () => {
    let failNow = () => {};
    const server = await aServer((request, response) => {
      if (request.url === "/bad") failNow = () => response.writeHead(500).end();
      else flood(response, Buffer.alloc(100));
    });
    const inputs = await someInputs();
    const wanted = ["/1", "/2", "/bad", "/3", "/4"].map((path) => anything(server.url(path)));
    const fetching = inputs.fetch(wanted, never);
    await vi.waitFor(() => expect(server.requests).toHaveLength(4));
    failNow();
    const fetched = await fetching;
    expect(fetched).toMatchObject({ ok: false, reason: "refused", url: server.url("/bad") });
    expect(messageOf(fetched)).toBe("The input at 127.0.0.1 answered with status 500.");
    await vi.waitFor(() => expect(server.connections.open).toBe(0));
    expect(server.requests).toHaveLength(4);
    expect(await filesUnder(inputs.folder)).toEqual([]);
  });
});

describe("what is not one whole file", () => {
  test.each([204, 206, 304, 401, 403, 404, 410, 429, 500, 503])("such as status %i is refused", async (status) => {
    const server = await aServer((_request, response) => response.writeHead(status).end());
    expect(messageOf(await (await someInputs()).one(server.url("/a?hush")))).toBe(
      `The input at 127.0.0.1 answered with status ${status}.`,
    );
  });

  test.each([
    [
      "a body that breaks off",
      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nbytes",
      "broke off before all of it had come",
    ],
    [
      "a chunk that breaks off",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nbytes",
      "broke off before all of it had come",
    ],
    [
      "a chunk of nonsense",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense",
      "broke off before all of it had come",
    ],
    ["half a head", "HTTP/1.1 200 OK\r\nContent-Le", "gave no valid HTTP response"],
    ["nothing", "", "gave no valid HTTP response"],
    [
      "two lengths",
      "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
      "gave no valid HTTP response",
    ],
    ["another protocol", "SSH-2.0-OpenSSH_9.9\r\n", "gave no valid HTTP response"],
    [
      "another protocol by HTTP's leave",
      "HTTP/1.1 101 OK\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nbytes",
      "gave no valid HTTP response",
    ],
    ["a head without end", `HTTP/1.1 200 OK\r\n${"X: y\r\n".repeat(5_000)}`, "gave no valid HTTP response"],
  ])("such as %s is refused", async (_what, answer, why) => {
    const server = createSocketServer((socket) => socket.on("error", () => {}).once("data", () => socket.end(answer)));
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    try {
      const inputs = await someInputs();
      const fetched = await inputs.one(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
      expect(messageOf(fetched)).toBe(`The input at 127.0.0.1 ${why}.`);
      expect(await filesUnder(inputs.folder)).toEqual([]);
    } finally {
      server.close();
    }
  });

  test("what a server sends beyond the length that it gave is not part of the file", async () => {
    const answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbytes and more";
    const server = createSocketServer((socket) => socket.on("error", () => {}).once("data", () => socket.end(answer)));
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const inputs = await someInputs();
    const file = fileOf(await inputs.one(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`));
    expect(file.size_bytes).toBe(5);
    server.close();
  });

  test("a host where nobody listens could not be reached", async () => {
    const server = createServer();
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const { port } = server.address() as AddressInfo;
    await new Promise((closed) => server.close(closed));
    expect(messageOf(await (await someInputs()).one(`http://127.0.0.1:${port}/`))).toBe(
      "The input at 127.0.0.1 could not be reached.",
    );
  });

  test("what is sent compressed, unasked, is not unpacked", async () => {
    const server = await aServer(sending(gzipSync(Buffer.alloc(1_000_000)), { "content-encoding": "gzip" }));
    expect(messageOf(await (await someInputs()).one(server.url()))).toBe(
      "The input at 127.0.0.1 is sent compressed, which was not asked for.",
    );
  });
});

test.each([
  ["the head of the answer", () => {}],
  ["the body", (response: ServerResponse) => response.write("b")],
  [
    "an end",
    (response: ServerResponse) => {
      response.on("drain", () => {});
      const drip = setInterval(() => response.write("b"), 5);
      response.on("close", () => clearInterval(drip));
    },
  ],
] as const)("a server that owes %s is left when its time is over", async (_what, answer) => {
  const server = await aServer((_request, response) => answer(response));
  const inputs = await someInputs({ limits: { each_ms: 150 } });
  expect(messageOf(await inputs.one(server.url()))).toBe("The input at 127.0.0.1 took longer than 0.15 s.");
  await vi.waitFor(() => expect(server.connections.open).toBe(0));
  expect(await filesUnder(inputs.folder)).toEqual([]);
});

test("a resolver that owes an answer and a redirect that leads on are part of a URL's time", async () => {
  const silent = await someInputs({ limits: { each_ms: 50 }, resolve: () => new Promise(() => {}) });
  expect(messageOf(await silent.one("https://example.com/"))).toBe("The input at example.com took longer than 0.05 s.");
  const server = await aServer((_request, response) => {
    setTimeout(() => response.writeHead(302, { location: "/" }).end(), 60);
  });
  const inputs = await someInputs({ limits: { each_ms: 150, redirects: 1_000 } });
  expect(messageOf(await inputs.one(server.url()))).toBe("The input at 127.0.0.1 took longer than 0.15 s.");
});

describe("the type of a file", () => {
  const page = "<!doctype html><title>Sign in to hush</title>";

  test("is told from its bytes, whatever its server and its URL call it", async () => {
    const server = await aServer(sending(await picture("png"), { "content-type": "text/html" }));
    const file = fileOf(await (await someInputs()).one(server.url("/a.mp4"), "image"));
    expect(file).toMatchObject({ content_type: "image/png", extension: "png" });
  });

  test.each([
    ["image", page, "is text/html; the node takes a picture (PNG, JPEG, WebP, GIF, AVIF, BMP or TIFF)"],
    ["image", "", "is of no known type; the node takes a picture (PNG, JPEG, WebP, GIF, AVIF, BMP or TIFF)"],
    ["audio", "GIF89a", "is image/gif; the node takes audio, or a video that carries it"],
    ["video", "fLaC", "is audio/flac; the node takes a video or an animated picture (GIF or WebP)"],
  ] as const)("must be what a node takes: %s, not %j", async (kind, bytes, why) => {
    const server = await aServer(sending(bytes, { "content-type": "image/png" }));
    const inputs = await someInputs();
    expect(messageOf(await inputs.one(server.url("/a.png"), kind))).toBe(`The input at 127.0.0.1 ${why}.`);
    expect(await filesUnder(inputs.folder)).toEqual([]);
  });

  test("must be what all nodes take that want the URL", async () => {
    const server = await aServer(sending(await picture("png")));
    const inputs = await someInputs();
    const both = (...kinds: InputKind[]) =>
      inputs.fetch(
        kinds.map((kind) => ({ url: server.url(), kind })),
        never,
      );
    expect(await both("image", "any")).toMatchObject({ ok: true });
    expect(messageOf(await both("any", "audio"))).toMatch(
      /^The input at 127\.0\.0\.1 is image\/png; the node takes audio/,
    );
  });

  test("ends a download as soon as it is known", async () => {
    const server = await aServer((_request, response) => {
      response.write(page);
      flood(response, Buffer.alloc(10_000, " "));
    });
    const inputs = await someInputs();
    expect(messageOf(await inputs.one(server.url(), "image"))).toMatch(/ is text\/html; /);
    await vi.waitFor(() => expect(server.connections.open).toBe(0));
  });
});

describe("an abort", () => {
  test("before the start asks for nothing", async () => {
    const server = await aServer(sending("bytes"));
    const inputs = await someInputs();
    expect(await inputs.fetch([anything(server.url())], AbortSignal.abort())).toEqual({ ok: false, reason: "aborted" });
    expect(server.connections.opened).toBe(0);
  });

  test.each([
    ["before the head", () => {}],
    ["in the middle of the bodies", (response: ServerResponse) => flood(response, Buffer.alloc(10_000))],
  ] as const)("%s ends all sockets and leaves no file", async (_when, answer) => {
    const server = await aServer((request, response) => {
      if (request.url === "/done") response.end("bytes");
      else answer(response);
    });
    const inputs = await someInputs({ max_cache_bytes: 0 });
    const abort = new AbortController();
    const wanted = ["/done", "/1", "/2", "/3", "/4", "/5"].map((path) => anything(server.url(path)));
    const fetching = inputs.fetch(wanted, abort.signal);
    await vi.waitFor(() => expect(server.requests).toHaveLength(5));
    abort.abort();
    expect(await fetching).toEqual({ ok: false, reason: "aborted" });
    await vi.waitFor(() => expect(server.connections.open).toBe(0));
    expect(await filesUnder(inputs.folder)).toEqual([]);
    expect(server.requests).toHaveLength(5);
  });

  test("while a name is resolved ends the wait", async () => {
    const abort = new AbortController();
    const inputs = await someInputs({
      resolve: () => {
        abort.abort();
        return new Promise(() => {});
      },
    });
    expect(await inputs.fetch([anything("https://example.com/")], abort.signal)).toEqual({
      ok: false,
      reason: "aborted",
    });
  });
});
