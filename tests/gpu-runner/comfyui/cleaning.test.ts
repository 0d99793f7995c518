import { mkdir, mkdtemp, readdir, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { clean, cleanOrphans } from "../../../gpu-runner/engines/comfyui/cleaning.ts";
import { type Client, createClient, type ServerFile, Unreachable } from "../../../gpu-runner/engines/comfyui/client.ts";

let base: string;
let forgotten: string[];
let emptied: ServerFile[];
let warnings: string[];
const client: Client = {
  ...createClient("http://127.0.0.1:1"),
  forget: async (prompt_id) => void forgotten.push(prompt_id),
  async upload(_source, as) {
    emptied.push(as);
    return as;
  },
};

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), "cleaning-"));
  [forgotten, emptied, warnings] = [[], [], []];
  for (const path of [
    "host/secret.txt",
    "input/darkroom-1.png",
    "input/theirs.png",
    "temp/p.png",
    "output/theirs.png",
    "output/darkroom/77/a.png",
    "output/darkroom/77/deep/b.png",
    "output/darkroom/78/theirs.png",
  ])
    await put(path);
});
afterEach(() => rm(base, { recursive: true, force: true }));

async function put(path: string): Promise<void> {
  await mkdir(dirname(join(base, path)), { recursive: true });
  await writeFile(join(base, path), "x");
}

const left = async (): Promise<readonly string[]> =>
  (await readdir(base, { recursive: true, withFileTypes: true }))
    .filter((entry) => !entry.isDirectory())
    .map((entry) => relative(base, join(entry.parentPath, entry.name)))
    .sort();

const cleaned = (files: readonly ServerFile[], at: string | undefined = base) =>
  clean(client, at, { prompt_id: "id", files, folder: "darkroom/77" }, (problem) => warnings.push(problem));

const output = (filename: string, subfolder = ""): ServerFile => ({ filename, subfolder, type: "output" });
const OTHERS = ["host/secret.txt", "input/theirs.png", "output/darkroom/78/theirs.png", "output/theirs.png"];

describe("Cleaning after a run", () => {
  it("removes its inputs, its previews, its folder and its history entry, and nothing else", async () => {
    await cleaned([
      { filename: "darkroom-1.png", subfolder: "", type: "input" },
      { filename: "p.png", subfolder: "", type: "temp" },
      output("a.png", "darkroom/77"),
      output("never-there.png", "nor/its/folder"),
    ]);
    expect(await left()).toEqual(OTHERS);
    expect([forgotten, emptied, warnings]).toEqual([["id"], [], []]);
  });

  it("removes it also where the folder was given as a relative path", async () => {
    await cleaned([output("theirs.png")], relative(process.cwd(), base));
    expect(await left()).not.toContain("output/theirs.png");
  });

  it.each([
    output("secret.txt", "../host"),
    output("../../host/secret.txt"),
    output("..\\..\\host\\secret.txt"),
    output("secret.txt", "darkroom/77/../../../host"),
    output("", "darkroom/78"),
    output(".", "darkroom/78"),
    output("..", "darkroom/78/x"),
    output("78", "darkroom"),
    output("theirs.png\0", "darkroom/78"),
    output("theirs.png", "\0"),
    output("n".repeat(300), "darkroom/78"),
    output("a\nb\ud800", "darkroom/78"),
  ])("removes nothing elsewhere by the name %j, and goes on", async (file) => {
    await cleaned([file, { filename: "darkroom-1.png", subfolder: "", type: "input" }]);
    expect(await left()).toEqual([...OTHERS, "temp/p.png"].sort());
  });

  it("removes nothing by an absolute folder", async () => {
    await cleaned([output("secret.txt", join(base, "host"))]);
    expect(await left()).toContain("host/secret.txt");
  });

  it("follows no link: a linked folder's files stay, a link itself goes", async () => {
    await symlink(join(base, "host"), join(base, "output/linked"));
    await symlink(join(base, "host/secret.txt"), join(base, "output/link.txt"));
    await symlink(join(base, "host"), join(base, "output/darkroom/77/away"));
    await cleaned([output("secret.txt", "linked"), output("link.txt")]);
    expect(await left()).toEqual([...OTHERS, "input/darkroom-1.png", "output/linked", "temp/p.png"].sort());
  });

  it("empties the files where their folder is not known", async () => {
    const files = [output("a.png", "darkroom/77")];
    await clean(client, undefined, { files, folder: "darkroom/77" }, (problem) => warnings.push(problem));
    expect([emptied, forgotten, warnings]).toEqual([files, [], []]);
  });

  it("says what can't be done, and does the rest", async () => {
    const deaf: Client = {
      ...client,
      forget: () => Promise.reject(new Unreachable("/history")),
      upload: () => Promise.reject(new Unreachable("/upload/image")),
    };
    const told = { prompt_id: "id", files: [output("x.png"), output("y.png")], folder: "darkroom/77" };
    expect(await clean(deaf, undefined, told, (problem) => warnings.push(problem))).toBe(false);
    // A server that does not answer is not asked for one file after the other.
    expect(warnings).toHaveLength(1);
    expect(await clean(deaf, base, told, (problem) => warnings.push(problem))).toBe(false);
    expect(await left()).not.toContain("output/x.png");
  });
});

describe("Cleaning after an earlier process", () => {
  const NOW = Date.now();
  const age = (path: string) => utimes(join(base, path), 0, (NOW - 25 * 3600_000) / 1000);

  it("removes what is a day old and has the prefix", async () => {
    for (const path of ["output/darkroom/77", "input/darkroom-1.png", "input/theirs.png", "output/theirs.png"])
      await age(path);
    expect(await cleanOrphans(base, "darkroom", NOW)).toBe(2);
    expect(await left()).toEqual([...OTHERS, "temp/p.png"].sort());
  });

  it("is not stopped by a link that leads nowhere, nor by folders that are not there", async () => {
    await symlink(join(base, "nowhere"), join(base, "output/darkroom/dangling"));
    await age("output/darkroom/77");
    expect(await cleanOrphans(base, "darkroom", NOW)).toBe(1);
    expect(await cleanOrphans(join(base, "none"), "darkroom", NOW)).toBe(0);
  });

  it("removes a link and not what it leads to", async () => {
    await symlink(join(base, "host"), join(base, "output/darkroom/link"));
    expect(await cleanOrphans(base, "darkroom", NOW + 26 * 3600_000)).toBe(4);
    expect(await left()).toContain("host/secret.txt");
  });
});
