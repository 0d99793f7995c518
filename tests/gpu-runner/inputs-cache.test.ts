import { createHash, randomBytes } from "node:crypto";
import { mkdir, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  aFolder,
  aServer,
  contentUnder,
  fileOf,
  filesUnder,
  messageOf,
  sending,
  someInputs,
} from "./inputs-harness.ts";

const never = new AbortController().signal;
const sha256 = (bytes: Buffer | string): string => createHash("sha256").update(bytes).digest("hex");
const pathOf = (bytes: Buffer | string): string => join(sha256(bytes).slice(0, 2), sha256(bytes));

/** What a path stands for; a path that asks for it again by these words is told that it is unchanged. */
const tagging =
  (contents: Record<string, Buffer | string>, headers: Record<string, string> = { etag: '"1"' }): RequestListener =>
  (request, response) => {
    const asked = request.headers["if-none-match"] ?? request.headers["if-modified-since"];
    if (asked === (headers.etag ?? headers["last-modified"])) response.writeHead(304, headers).end();
    else response.writeHead(200, headers).end(contents[request.url ?? ""]);
  };

/** A server of 100 bytes for each path, which differ, and inputs that hold 250 at most. */
async function aSmallCache() {
  const server = await aServer((request, response) => {
    response.end(Buffer.alloc(100, sha256(request.url ?? "")));
  });
  let clock = Date.parse("2026-01-01");
  const options = { max_cache_bytes: 250, now: () => (clock += 1_000) };
  const inputs = await someInputs(options);
  const pathsOf = async () => {
    const kept = await contentUnder(inputs.folder);
    return ["/a", "/b", "/c", "/d"].filter((path) => kept.includes(pathOf(Buffer.alloc(100, sha256(path)))));
  };
  const fetch = async (path: string, from = inputs) => {
    const fetched = await from.one(server.url(path));
    if (!fetched.ok) throw new Error(messageOf(fetched));
    return fetched;
  };
  return { options, inputs, fetch, pathsOf };
}

test("a file lies under its hash, as it was sent", async () => {
  const bytes = randomBytes(300_000);
  const server = await aServer(sending(bytes));
  const inputs = await someInputs();
  const file = fileOf(await inputs.one(server.url()));
  expect(file).toEqual({
    path: join(inputs.folder, pathOf(bytes)),
    size_bytes: 300_000,
    sha256: sha256(bytes),
    content_type: "application/octet-stream",
    extension: "bin",
  });
  expect(await readFile(file.path)).toEqual(bytes);
  expect(await filesUnder(inputs.folder)).toEqual([pathOf(bytes)]);
  expect((await stat(file.path)).mode & 0o777).toBe(0o600);
});

test("an empty file is a file", async () => {
  const server = await aServer(sending(""));
  expect(fileOf(await (await someInputs()).one(server.url())).size_bytes).toBe(0);
});

describe("a URL that was fetched before", () => {
  test.each([
    [{ etag: '"1"' }, { "if-none-match": '"1"' }],
    [{ etag: 'W/"\xe9"' }, { "if-none-match": 'W/"\xe9"' }],
    [{ "last-modified": "Wed, 21 Oct 2015 07:28:00 GMT" }, { "if-modified-since": "Wed, 21 Oct 2015 07:28:00 GMT" }],
  ])("is asked whether %j still holds, also by the next process", async (words, asked) => {
    const server = await aServer(tagging({ "/a?hush": "bytes" }, words));
    const inputs = await someInputs();
    const first = fileOf(await inputs.one(server.url("/a?hush")));
    const again = fileOf(await inputs.one(server.url("/a?hush#fragment")));
    const later = fileOf(await (await someInputs({ folder: inputs.folder })).one(server.url("/a?hush")));
    expect([again, later]).toEqual([first, first]);
    expect(server.requests).toMatchObject([{}, { headers: asked }, { headers: asked }]);
    expect(server.requests[0]?.headers).not.toHaveProperty(Object.keys(asked)[0] ?? "");
  });

  test("is nowhere on the disk", async () => {
    const server = await aServer(tagging({ "/hush": "bytes" }));
    const inputs = await someInputs();
    await inputs.one(server.url("/hush?hush"));
    const files = await filesUnder(inputs.folder);
    expect(files).toHaveLength(2);
    for (const file of files) {
      expect(file).not.toContain("hush");
      expect(await readFile(join(inputs.folder, file), "utf8")).not.toMatch(/hush|127\.0\.0\.1/);
    }
  });

  test("has its new content when it has changed", async () => {
    let turn = 0;
    const server = await aServer((_request, response) => {
      turn++;
      response.writeHead(200, { etag: `"${turn}"` }).end(`bytes ${turn}`);
    });
    const inputs = await someInputs();
    expect(fileOf(await inputs.one(server.url())).sha256).toBe(sha256("bytes 1"));
    expect(fileOf(await inputs.one(server.url())).sha256).toBe(sha256("bytes 2"));
    expect(fileOf(await inputs.one(server.url())).sha256).toBe(sha256("bytes 3"));
    expect(server.requests.map(({ headers }) => headers["if-none-match"])).toEqual([undefined, '"1"', '"2"']);
  });

  test("must be what the node takes, also from the cache", async () => {
    const server = await aServer(tagging({ "/a": "bytes" }));
    const inputs = await someInputs();
    await inputs.one(server.url("/a"));
    expect(messageOf(await inputs.one(server.url("/a"), "image"))).toMatch(/ is of no known type; /);
    expect(server.requests).toHaveLength(2);
  });

  test.each([["etag"], ["last-modified"]])(
    "is asked for plainly where its %s is no word for a header",
    async (name) => {
      const server = await aServer(tagging({ "/a": "bytes" }, { [name]: `"${"x".repeat(2000)}"` }));
      const inputs = await someInputs();
      await inputs.one(server.url("/a"));
      expect(fileOf(await inputs.one(server.url("/a"))).size_bytes).toBe(5);
      expect(await filesUnder(inputs.folder)).toEqual([pathOf("bytes")]);
    },
  );

  test("has words of its own for each place that it redirects to", async () => {
    let target = "/1";
    const server = await aServer((request, response) => {
      if (request.url === "/a") response.writeHead(302, { location: target }).end();
      else tagging({ "/1": "one", "/2": "two" })(request, response);
    });
    const inputs = await someInputs();
    expect(fileOf(await inputs.one(server.url("/a"))).sha256).toBe(sha256("one"));
    expect(fileOf(await inputs.one(server.url("/a"))).sha256).toBe(sha256("one"));
    target = "/2";
    // Its etag is the same as that of the other place, and says nothing about it.
    expect(fileOf(await inputs.one(server.url("/a"))).sha256).toBe(sha256("two"));
    expect(server.requests.map(({ path, headers }) => path + (headers["if-none-match"] ?? ""))).toEqual([
      "/a",
      "/1",
      "/a",
      '/1"1"',
      "/a",
      "/2",
    ]);
  });
});

describe("a damaged cache means a plain download", () => {
  const damaged = async (damage: (folder: string, content: string, index: string) => Promise<unknown>) => {
    const server = await aServer(tagging({ "/a": "bytes" }));
    const inputs = await someInputs();
    const first = await inputs.one(server.url("/a"));
    if (first.ok) first.release();
    const [content = "", index = ""] = (await filesUnder(inputs.folder)).sort((a, b) => a.length - b.length);
    await damage(inputs.folder, join(inputs.folder, content), join(inputs.folder, index));
    return { server, inputs, content, index };
  };

  test.each([
    ["content without the last byte", (_folder, content) => writeFile(content, "byte")],
    ["other content of the same size", (_folder, content) => writeFile(content, "other")],
    ["content that is gone", (_folder, content) => rm(content)],
    ["an index entry that is gone", (_folder, _content, index) => rm(index)],
    ["an index entry without text", (_folder, _content, index) => writeFile(index, "")],
    ["an index entry of something else", (_folder, _content, index) => writeFile(index, "[1]")],
    [
      "a header in an etag",
      (_folder, content, index) =>
        writeFile(index, JSON.stringify({ sha256: content.slice(-64), etag: '"1"\r\ncookie: a' })),
    ],
    [
      "a path for a hash",
      (_folder, _content, index) => writeFile(index, JSON.stringify({ sha256: "../../etc/passwd", etag: '"1"' })),
    ],
    [
      "both gone",
      async (folder) => {
        for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true });
        await mkdir(join(folder, "tmp"));
      },
    ],
  ] as [string, Parameters<typeof damaged>[0]][])("%s", async (_what, damage) => {
    const { server, inputs, content, index } = await damaged(damage);
    for (const next of [() => inputs, () => someInputs({ folder: inputs.folder })]) {
      const file = fileOf(await (await next()).one(server.url("/a")));
      expect(file.sha256).toBe(sha256("bytes"));
      expect(await readFile(file.path, "utf8")).toBe("bytes");
    }
    expect(await filesUnder(inputs.folder)).toEqual([content, index].sort());
    expect(server.requests.at(-1)?.headers["if-none-match"]).toBe('"1"');
  });

  test("a server that calls unchanged what it was not asked about is refused", async () => {
    const server = await aServer((request, response) => {
      if (server.requests.length === 1) tagging({ "/a": "bytes" })(request, response);
      else response.writeHead(304).end();
    });
    const inputs = await someInputs();
    const file = fileOf(await inputs.one(server.url("/a")));
    await writeFile(file.path, "other");
    expect(messageOf(await inputs.one(server.url("/a")))).toBe("The input at 127.0.0.1 answered with status 304.");
  });
});

describe("the bound of the cache", () => {
  test("removes what was used longest ago", async () => {
    const { fetch, pathsOf } = await aSmallCache();
    for (const path of ["/a", "/b", "/a", "/c"]) (await fetch(path)).release();
    expect(await pathsOf()).toEqual(["/a", "/c"]);
  });

  test("spares what is in use, until its last user lets it go", async () => {
    const { fetch, pathsOf } = await aSmallCache();
    const [a, again, b] = [await fetch("/a"), await fetch("/a"), await fetch("/b")];
    (await fetch("/c")).release();
    expect(await pathsOf()).toEqual(["/a", "/b"]);
    const c = await fetch("/c");
    expect(await pathsOf()).toEqual(["/a", "/b", "/c"]);
    a.release();
    a.release();
    expect(await pathsOf()).toEqual(["/a", "/b", "/c"]);
    again.release();
    expect(await pathsOf()).toEqual(["/b", "/c"]);
    for (const { release } of [b, c]) release();
    expect(await pathsOf()).toEqual(["/b", "/c"]);
  });

  test("keeps a file that is larger than it for as long as it is used", async () => {
    const server = await aServer(sending(Buffer.alloc(1000)));
    const inputs = await someInputs({ max_cache_bytes: 999 });
    const fetched = await inputs.one(server.url());
    expect((await readFile(fileOf(fetched).path)).length).toBe(1000);
    if (fetched.ok) fetched.release();
    expect(await filesUnder(inputs.folder)).toEqual([]);
  });

  test("lets go what a failed or aborted job had", async () => {
    let failNow = () => {};
    const server = await aServer((request, response) => {
      if (request.url === "/done") response.end("bytes");
      else failNow = () => response.writeHead(404).end();
    });
    const inputs = await someInputs({ max_cache_bytes: 0, limits: { at_once: 1 } });
    const wanted = ["/done", "/bad"].map((path) => ({ url: server.url(path), kind: "any" as const }));
    const fetching = inputs.fetch(wanted, never);
    await expect.poll(() => server.requests.length).toBe(2);
    expect(await filesUnder(inputs.folder)).toEqual([pathOf("bytes")]);
    failNow();
    expect(messageOf(await fetching)).toMatch(/status 404/);
    expect(await filesUnder(inputs.folder)).toEqual([]);
  });

  test("holds across a restart, in the order of use", async () => {
    const { fetch, pathsOf, inputs, options } = await aSmallCache();
    for (const path of ["/a", "/b", "/a"]) (await fetch(path)).release();
    const next = await someInputs({ ...options, folder: inputs.folder });
    (await fetch("/c", next)).release();
    expect(await pathsOf()).toEqual(["/a", "/c"]);
    await someInputs({ ...options, max_cache_bytes: 100, folder: inputs.folder });
    expect(await pathsOf()).toEqual(["/c"]);
  });

  test("spares a hit that is in use", async () => {
    const [a, b] = [Buffer.alloc(100, "a"), Buffer.alloc(100, "b")];
    const server = await aServer(tagging({ "/a": a, "/b": b }));
    const inputs = await someInputs({ max_cache_bytes: 150 });
    const first = await inputs.one(server.url("/a"));
    if (first.ok) first.release();
    const hit = await inputs.one(server.url("/a"));
    const other = await inputs.one(server.url("/b"));
    if (other.ok) other.release();
    expect(await contentUnder(inputs.folder)).toEqual([pathOf(a)]);
    if (hit.ok) hit.release();
    expect(await contentUnder(inputs.folder)).toEqual([pathOf(a)]);
  });

  test("a hit counts as a use", async () => {
    const server = await aServer((request, response) => {
      const contents = { "/a": Buffer.alloc(100, "a"), "/b": Buffer.alloc(100, "b"), "/c": Buffer.alloc(100, "c") };
      tagging(contents)(request, response);
    });
    const inputs = await someInputs({ max_cache_bytes: 250 });
    for (const path of ["/a", "/b", "/a", "/c"]) {
      const fetched = await inputs.one(server.url(path));
      if (fetched.ok) fetched.release();
    }
    const kept = ["a", "c"].map((letter) => pathOf(Buffer.alloc(100, letter)));
    expect(await contentUnder(inputs.folder)).toEqual(kept.sort());
  });
});

test("a start removes what was in the making, and touches nothing else", async () => {
  const folder = await aFolder();
  const kept = [
    pathOf("bytes"),
    "ab/README",
    `zz/${sha256("a")}`,
    `00/${sha256("bytes").replace(/^../, "11")}`,
    "note",
  ];
  for (const path of [...kept, "tmp/1", "tmp/deep/2"]) {
    await mkdir(join(folder, path, ".."), { recursive: true });
    await writeFile(join(folder, path), "bytes");
    await utimes(join(folder, path), 0, 0);
  }
  await someInputs({ folder });
  expect(await filesUnder(folder)).toEqual([...kept].sort());
});

test("jobs that fetch the same at once each have all of it, and one copy stays", async () => {
  const bytes = randomBytes(200_000);
  const server = await aServer(tagging({ "/a": bytes, "/b": bytes }));
  const inputs = await someInputs({ max_cache_bytes: 0 });
  for (let round = 0; round < 3; round++) {
    const jobs = await Promise.all(
      Array.from({ length: 12 }, (_, n) => inputs.one(server.url(n % 2 === 0 ? "/a" : "/b"))),
    );
    for (const job of jobs) {
      expect(sha256(await readFile(fileOf(job).path))).toBe(sha256(bytes));
      if (job.ok) job.release();
    }
    expect(await contentUnder(inputs.folder)).toEqual([]);
  }
});

test("a fault of the disk rejects, and lets everything go", async () => {
  const server = await aServer(sending("bytes"));
  const inputs = await someInputs();
  await rm(join(inputs.folder, "tmp"), { recursive: true });
  await expect(inputs.one(server.url())).rejects.toThrow("ENOENT");
  await expect.poll(() => server.connections.open).toBe(0);
});
