import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { parseConfig } from "../../gpu-runner/config.ts";

const ADDRESSES = ["--edge", "http://127.0.0.1:8787", "--url", "http://127.0.0.1:8090"];
const TWO = ["--comfyui", "http://127.0.0.1:8188, http://127.0.0.1:8189/"];

const parse = (args: readonly string[], env: Record<string, string> = {}) => parseConfig([...ADDRESSES, ...args], env);

function comfyuiOf(args: readonly string[], env: Record<string, string> = {}) {
  const parsed = parse(args, env);
  if (parsed.kind !== "run" || !parsed.config.comfyui) throw new Error(JSON.stringify(parsed));
  return { ...parsed.config.comfyui, seats: parsed.config.seats };
}

function mistakes(args: readonly string[], env: Record<string, string> = {}): readonly string[] {
  const parsed = parse(args, env);
  return parsed.kind === "wrong" ? parsed.mistakes : [];
}

describe("The settings for ComfyUI", () => {
  it("have defaults, and a seat for each server", () => {
    expect(comfyuiOf(TWO)).toEqual({
      servers: [{ url: "http://127.0.0.1:8188" }, { url: "http://127.0.0.1:8189" }],
      allow: { core: true, api: false, packs: new Set(), classes: new Set(), everything: false },
      stall_ms: 120_000,
      strip_metadata: false,
      input_cache_bytes: 10 * 1024 ** 3,
      seats: 2,
    });
  });

  it("are read from the environment, over which flags win; an empty variable is none", () => {
    const env = {
      COMFYUI_URLS: "http://127.0.0.1:9000",
      COMFYUI_FOLDERS: "/srv/comfyui",
      COMFYUI_ALLOW: "core,api",
      COMFYUI_COMMAND: "",
      COMFYUI_RESTART: "systemctl restart comfyui",
      COMFYUI_WARM_UP: "warm.json",
      COMFYUI_STALL: "30",
      COMFYUI_STRIP_METADATA: "1",
      COMFYUI_INPUT_CACHE: "2",
    };
    expect(comfyuiOf([], env)).toMatchObject({
      servers: [{ url: "http://127.0.0.1:9000", folder: "/srv/comfyui" }],
      allow: { api: true },
      restart: "systemctl restart comfyui",
      warm_up: resolve("warm.json"),
      stall_ms: 30_000,
      strip_metadata: true,
      input_cache_bytes: 2 * 1024 ** 3,
    });
    expect(comfyuiOf([...TWO, "--comfyui-stall", "60", "--comfyui-allow", "*"], env)).toMatchObject({
      servers: [{ folder: "/srv/comfyui" }, { folder: "/srv/comfyui" }],
      allow: { everything: true },
      stall_ms: 60_000,
    });
  });

  it("give each server its own folder, or all the same", () => {
    expect(comfyuiOf([...TWO, "--comfyui-folders", "/a, rel"]).servers).toMatchObject([
      { folder: "/a" },
      { folder: resolve("rel") },
    ]);
    expect(mistakes([...TWO, "--comfyui-folders", "/a,/b,/c"])).toEqual([
      "--comfyui-folders names 3 folders for 2 servers; give one for each, or one for all",
    ]);
  });

  it("name every mistake in a line of its own, and follow none of them up", () => {
    const args = [
      "--comfyui",
      "127.0.0.1:8188,http://a/?b",
      "--comfyui-folders",
      "/a,/b,/c",
      "--comfyui-allow",
      "a,,b",
    ];
    const more = ["--comfyui-stall", "9", "--input-cache", "1e3", "--comfyui-command", "x", "--comfyui-restart", "y"];
    const found = mistakes([...args, ...more], { COMFYUI_STRIP_METADATA: "true" });
    expect(found.map((line) => line.split(" ")[0])).toEqual([
      "--comfyui-folders",
      "--comfyui:",
      "--comfyui:",
      "--comfyui-allow",
      "--comfyui-command",
      "--comfyui-stall",
      "--input-cache",
      "COMFYUI_STRIP_METADATA",
    ]);
  });

  it("refuse a server that is named twice, however it is spelled", () => {
    expect(mistakes(["--comfyui", "http://localhost:80,http://LOCALHOST/"])).toEqual([
      "--comfyui names a server twice",
    ]);
  });

  it("refuse a URL with a password, and do not repeat it", () => {
    const [line, ...others] = mistakes(["--comfyui", "http://me:hidden@127.0.0.1:8188"]);
    expect(line).toContain("127.0.0.1:8188");
    expect([line, ...others].join()).not.toContain("hidden");
    expect(others).toEqual([]);
  });

  it("have at most 64 servers", () => {
    const urls = Array.from({ length: 65 }, (_, n) => `http://127.0.0.1:${9000 + n}`);
    expect(mistakes(["--comfyui", urls.join(",")])[0]).toBe("--comfyui names 65 servers; a runner has at most 64");
    expect(comfyuiOf(["--comfyui", urls.slice(1).join(",")]).seats).toBe(64);
  });

  it("allow fewer seats than servers, and not more", () => {
    expect(comfyuiOf([...TWO, "--seats", "1"]).seats).toBe(1);
    for (const seats of ["0", "3", "1.5"])
      expect(mistakes([...TWO, "--seats", seats])).toEqual([
        "--seats must be a whole number from 1 to 2, the number of ComfyUI servers",
      ]);
  });

  it("are of no use without a server, each by its name", () => {
    expect(mistakes(["--comfyui-stall", "30", "--strip-metadata"])).toEqual([
      "--comfyui-stall is of no use without --comfyui (or COMFYUI_URLS)",
      "--strip-metadata is of no use without --comfyui (or COMFYUI_URLS)",
    ]);
    expect(mistakes(["--comfyui", " , "])).toEqual(["--comfyui names no server"]);
    expect(parse([], { COMFYUI_ALLOW: "core" })).toMatchObject({ kind: "run" });
  });
});

describe("A check", () => {
  it("needs the servers and nothing of the service", () => {
    const checked = parseConfig(["--check"], { COMFYUI_URLS: "http://127.0.0.1:8188" });
    expect(checked).toMatchObject({ kind: "check", comfyui: { servers: [{ url: "http://127.0.0.1:8188" }] } });
    expect(parseConfig(["--check"], {})).toEqual({
      kind: "wrong",
      mistakes: ["--check needs --comfyui (or COMFYUI_URLS)"],
    });
    expect(parseConfig(["--check", "--comfyui", "x"], {})).toMatchObject({ kind: "wrong", mistakes: { length: 1 } });
  });
});

describe("Inputs from this machine", () => {
  it("are for a service on this machine only", () => {
    expect(parse(["--loopback-inputs"])).toMatchObject({ kind: "run", config: { loopback_inputs: true } });
    const away = ["--edge", "https://darkroom.example", "--url", "https://gpu.example", "--loopback-inputs"];
    expect(parseConfig(away, {})).toEqual({
      kind: "wrong",
      mistakes: ["--loopback-inputs is for a service on this machine only"],
    });
  });
});
