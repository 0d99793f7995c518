import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseConfig, USAGE } from "../../gpu-runner/config.ts";
import { COMFYUI_OPTIONS, COMFYUI_USAGE } from "../../gpu-runner/config-comfyui.ts";

/** docs/comfyui.md and gpu-runner/systemd against the runner's own settings, and the links of all pages. */

const ROOT = join(import.meta.dirname, "../..");
const UNITS = join(ROOT, "gpu-runner/systemd");

const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

const page = read("docs/comfyui.md");
const example = read("gpu-runner/systemd/runner.env.example");
const runnerUnit = read("gpu-runner/systemd/darkroom-runner.service");
const comfyuiUnit = read("gpu-runner/systemd/comfyui@.service");

const VARIABLES = [...new Set(COMFYUI_USAGE.match(/COMFYUI_[A-Z_]+/g) ?? [])];
const FLAGS = Object.keys(COMFYUI_OPTIONS).map((name) => `--${name}`);

/** The values of a setting of a unit, lines that go on joined. */
const settings = (unit: string, name: string): readonly string[] =>
  unit
    .replaceAll("\\\n", " ")
    .split("\n")
    .flatMap((line) => (line.startsWith(`${name}=`) ? [line.slice(name.length + 1)] : []));

/** The settings of the example; with `also`, those that stand there as comments too. */
function environment(...also: readonly string[]): Record<string, string> {
  const lines = example
    .split("\n")
    .map((line) => (also.some((name) => line.startsWith(`#${name}=`)) ? line.slice(1) : line))
    .flatMap((line) => [...line.matchAll(/^([A-Z_]+)=(.*)$/g)]);
  return Object.fromEntries(lines.map(([, name = "", value = ""]) => [name, value]));
}

function runnerArguments(): readonly string[] {
  const [line = ""] = settings(runnerUnit, "ExecStart");
  const [node, main, ...flags] = line.split(/\s+/);
  expect(node).toMatch(/^\/opt\/darkroom\/node_modules\/\.bin\/node$/);
  expect(existsSync(join(ROOT, main ?? "")), main).toBe(true);
  return flags;
}

describe("docs/comfyui.md", () => {
  it("has every flag with its variable in the table of settings", () => {
    expect(VARIABLES.length).toBeGreaterThan(7);
    for (const flag of FLAGS) {
      const row = page.split("\n").find((line) => line.startsWith(`| \`${flag}\` |`));
      const [variable] = new RegExp(`${flag} .*?(COMFYUI_[A-Z_]+)`, "s").exec(COMFYUI_USAGE)?.slice(1) ?? [];
      expect(row, flag).toContain(`\`${variable}`);
    }
  });

  it("names no variable that the runner does not read", () => {
    // Those of commands, of the unit and of the tests.
    const others = ["COMFYUI_URL", "COMFYUI_PORT", "COMFYUI_INDEX", "COMFYUI_ARGS", "COMFYUI_FOLDER", "COMFYUI_"];
    for (const name of page.match(/\bCOMFYUI_[A-Z_]*/g) ?? []) expect([...VARIABLES, ...others]).toContain(name);
  });

  it("tells of every flag of ComfyUI that the unit gives", () => {
    const [line = ""] = settings(comfyuiUnit, "ExecStart");
    const flags = line.match(/--[a-z-]+/g) ?? [];
    expect(flags.length).toBeGreaterThan(5);
    for (const flag of flags) expect(page, flag).toContain(`| \`${flag}`.replace("| `--port", "`--port"));
  });
});

describe("gpu-runner/systemd", () => {
  it("has no file that the page does not name", () => {
    for (const name of readdirSync(UNITS)) expect(page, name).toContain(name);
  });

  it("starts a runner with flags and settings that it understands", () => {
    const flags = runnerArguments();
    for (const flag of flags.filter((one) => one.startsWith("--"))) expect(USAGE).toContain(`  ${flag} `);
    const parsed = parseConfig(flags, environment());
    expect(parsed.kind === "wrong" ? parsed.mistakes : []).toEqual([]);
    expect(parsed).toMatchObject({ kind: "run", config: { data: "/var/lib/darkroom", seats: 1 } });
  });

  it("shows every variable in the example, with a value that the runner takes", () => {
    for (const name of VARIABLES) {
      expect(example).toMatch(new RegExp(`^#?${name}=`, "m"));
      // Folders belong to URLs; the two commands exclude each other.
      const shown = /URLS|FOLDERS/.test(name) ? environment("COMFYUI_URLS", "COMFYUI_FOLDERS") : environment(name);
      const env = { ...shown, ...(name === "COMFYUI_COMMAND" ? { COMFYUI_RESTART: "" } : {}) };
      expect(parseConfig(runnerArguments(), env), name).toMatchObject({ kind: "run" });
    }
  });

  it("gives a drain its time", () => {
    const flags = runnerArguments();
    const grace = Number(flags[flags.indexOf("--grace") + 1]);
    const [stop] = settings(runnerUnit, "TimeoutStopSec");
    expect(Number(stop)).toBeGreaterThanOrEqual(grace + 60);
    expect(settings(runnerUnit, "KillMode")).toEqual(["mixed"]);
  });

  it("has servers, settings, users and the rule of the restart agree", () => {
    const { COMFYUI_URLS = "", COMFYUI_FOLDERS, COMFYUI_RESTART = "" } = environment();
    expect(settings(comfyuiUnit, "ExecStart")[0]).toContain("$((8188 + %i))");
    expect(new URL(COMFYUI_URLS).port).toBe("8188");
    expect(settings(comfyuiUnit, "ReadWritePaths")[0]?.replaceAll("%i", "0")).toContain(`${COMFYUI_FOLDERS}/input `);
    expect(settings(runnerUnit, "SupplementaryGroups")).toEqual(settings(comfyuiUnit, "Group"));
    expect(settings(runnerUnit, "User")).not.toEqual(settings(comfyuiUnit, "User"));
    const rule = read("gpu-runner/systemd/50-darkroom.rules");
    expect(rule).toContain(`subject.user === "${settings(runnerUnit, "User")[0]}"`);
    const [, pattern = "$^"] = /\/(\^comfyui.*\$)\//.exec(rule) ?? [];
    const unit = COMFYUI_RESTART.replace("$COMFYUI_INDEX", "0").split(" ").at(-1) ?? "";
    expect(unit).toMatch(new RegExp(pattern));
    expect("ssh.service").not.toMatch(new RegExp(pattern));
  });
});

/** As a heading is linked to. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, "")
    .replaceAll(" ", "-");

const anchorsOf = (path: string): readonly string[] =>
  [...read(path).matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) => anchorOf(heading));

describe("The pages", () => {
  const pages = [
    "README.md",
    ...readdirSync(join(ROOT, "docs")).flatMap((n) => (n.endsWith(".md") ? [`docs/${n}`] : [])),
  ];

  it.each(pages)("%s links to what exists", (from) => {
    for (const [, target = ""] of read(from).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      const [file = "", anchor] = target.split("#");
      const path = file === "" ? from : join(dirname(from), file);
      expect(existsSync(join(ROOT, path)), target).toBe(true);
      if (anchor !== undefined) expect(anchorsOf(path), target).toContain(anchor);
    }
  });
});
