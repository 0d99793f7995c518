import type { ClosedClasses } from "../../engine.ts";
import { coreClasses } from "./core-classes.ts";
import { CLOSING_REASONS, type ClosingReason } from "./core-classes/review.ts";

/** Which classes an operator lets strangers' graphs use: `COMFYUI_ALLOW`, read. */
export interface Allow {
  /** The core classes that were reviewed and found safe for a shared server. */
  readonly core: boolean;
  /** The classes that call paid services with the operator's account, all of them. */
  readonly api: boolean;
  /** Custom node packs by the name of their folder, as written; case does not matter. */
  readonly packs: ReadonlySet<string>;
  /** Single classes, whoever provides them; case matters. */
  readonly classes: ReadonlySet<string>;
  /** Whatever the server has. */
  readonly everything: boolean;
}

export interface JudgedClasses {
  /** What may run, sorted. */
  readonly open: readonly string[];
  /** What the server has and may not run: core by reason, then the packs by name. */
  readonly closed: readonly ClosedClasses[];
  /** What the setting names and the server does not have, as an entry of the setting: a typing mistake, or a pack that failed to load. */
  readonly unknown: readonly string[];
}

/** What holds where `COMFYUI_ALLOW` is not set. */
export const DEFAULT_ALLOW = "core";

const CLASS_PREFIX = "class:";
const PACK_PARENT = "custom_nodes";
const API_PARENT = "comfy_api_nodes";
/** What ComfyUI says of a class of `nodes.py`, and of one that a pack has put into the registry by itself. */
const BASE_MODULE = "nodes";
const EXTRAS = "comfy_extras.";

/**
 * Reads `COMFYUI_ALLOW`: entries between commas, each `core`, `api`, `*`, `class:Name` or the name of a custom node pack. A pack
 * may be written as its folder, its path under `custom_nodes` or its Python module. Blank text means the default.
 */
export function parseAllow(text: string): { ok: true; allow: Allow } | { ok: false; mistake: string } {
  const packs = new Map<string, string>();
  const classes = new Set<string>();
  const words = new Set<string>();
  for (const written of (text.trim() === "" ? DEFAULT_ALLOW : text).split(",")) {
    const entry = written.trim();
    const word = entry.toLowerCase();
    if (entry === "") return { ok: false, mistake: "it has an empty entry between two commas" };
    if (word === "core" || word === "api" || word === "*") words.add(word);
    else if (entry.includes("*"))
      return { ok: false, mistake: `"${entry}" is a pattern, and only "*" alone is understood` };
    else if (word.startsWith(CLASS_PREFIX)) {
      const name = entry.slice(CLASS_PREFIX.length).trim();
      if (name === "") return { ok: false, mistake: `"${entry}" names no class` };
      classes.add(name);
    } else {
      const name = packFolder(entry);
      if (name === undefined)
        return { ok: false, mistake: `"${entry}" is not the name of a custom node pack's folder` };
      packs.set(name.toLowerCase(), name);
    }
  }
  return {
    ok: true,
    allow: {
      core: words.has("core"),
      api: words.has("api"),
      packs: new Set(packs.values()),
      classes,
      everything: words.has("*"),
    },
  };
}

/** The folder that an operator means by `custom_nodes/pack/`, `custom_nodes.pack`, `pack.py` or `pack`. */
function packFolder(entry: string): string | undefined {
  const steps = entry.split(/[\\/]+/).filter((step) => step !== "" && step !== ".");
  const last = steps.at(-1) ?? "";
  const folder = last.startsWith(`${PACK_PARENT}.`) ? last.slice(PACK_PARENT.length + 1) : last.replace(/\.py$/i, "");
  return folder === "" || folder === ".." || folder.includes(":") ? undefined : folder;
}

/** Where a class comes from. */
type Source =
  | { readonly kind: "core"; readonly module: string }
  | { readonly kind: "api" }
  | { readonly kind: "pack"; readonly name: string };

/** `nodes` and `comfy_extras.*` are ComfyUI's own; what says anything else, or nothing, is treated as a pack. */
function sourceOf(module: string): Source {
  if (module === BASE_MODULE || module.startsWith(EXTRAS)) return { kind: "core", module: module.replace(EXTRAS, "") };
  if (module === API_PARENT || module.startsWith(`${API_PARENT}.`)) return { kind: "api" };
  const prefix = `${PACK_PARENT}.`;
  return { kind: "pack", name: module.startsWith(prefix) ? module.slice(prefix.length) : module };
}

/**
 * Decides which of a server's classes may run. Where a class comes from is what the server says of it (`python_module`): a pack
 * that takes over the name of a core class is judged as the pack. What nobody has reviewed is closed.
 */
export function judgeClasses(modules: ReadonlyMap<string, string>, allow: Allow): JudgedClasses {
  const open: string[] = [];
  const core = new Map<ClosingReason, string[]>();
  const packs = new Map<string, string[]>();
  const allowedPacks = new Set([...allow.packs].map((name) => name.toLowerCase()));
  const seenPacks = new Set<string>();
  for (const [name, module] of modules) {
    const source = sourceOf(module);
    if (source.kind === "pack") seenPacks.add(source.name.toLowerCase());
    if (allow.everything || allow.classes.has(name)) open.push(name);
    else if (source.kind === "pack") {
      if (allowedPacks.has(source.name.toLowerCase())) open.push(name);
      else append(packs, source.name, name);
    } else {
      const reason = closingReason(name, source, allow);
      if (reason === undefined) open.push(name);
      else append(core, reason, name);
    }
  }
  return {
    open: open.sort(),
    closed: [
      ...byName(core, (reason) => CLOSING_REASONS[reason].group).map(([reason, classes]) => ({
        group: CLOSING_REASONS[reason].group,
        classes: classes.sort(),
        reason: CLOSING_REASONS[reason].sentence,
        opened_by: settingWith(allow, CLOSING_REASONS[reason].opened_by ?? oneByOne(classes)),
      })),
      ...byName(packs, (pack) => pack).map(([pack, classes]) => ({
        group: pack === "" ? "unknown origin" : pack,
        classes: classes.sort(),
        reason: "The custom node pack is not on the list of what may run.",
        opened_by: settingWith(allow, canBeNamed(pack) ? pack : oneByOne(classes)),
      })),
    ],
    unknown: [
      ...[...allow.packs].filter((name) => !seenPacks.has(name.toLowerCase())),
      ...[...allow.classes].filter((name) => !modules.has(name)).map((name) => `${CLASS_PREFIX}${name}`),
    ].sort(),
  };
}

/**
 * Why a class that is no pack's may not run. ComfyUI moves classes between its extra modules; one that is said to be of `nodes.py`
 * and was read elsewhere is another class of the same name.
 */
function closingReason(
  name: string,
  source: Exclude<Source, { kind: "pack" }>,
  allow: Allow,
): ClosingReason | undefined {
  if (source.kind === "api") return allow.api ? undefined : "paid_service";
  const reviewed = coreClasses.get(name);
  if (!reviewed || (reviewed.module === BASE_MODULE) !== (source.module === BASE_MODULE)) return "not_reviewed";
  if (reviewed.verdict !== "open") return reviewed.verdict;
  return allow.core ? undefined : "core_not_allowed";
}

/** Whether a pack can be an entry of the setting and means itself there. */
function canBeNamed(pack: string): boolean {
  const parsed = parseAllow(pack);
  return parsed.ok && parsed.allow.packs.has(pack);
}

/** Any one class of a group, as an entry: the operator replaces the name, or adds more such entries. */
function oneByOne(classes: readonly string[]): string {
  return classes.length === 1 ? `${CLASS_PREFIX}${classes[0]}` : `${CLASS_PREFIX}NAME`;
}

/** Longest setting that is shown in full: what is longer is not shown to operators at all. */
const LONGEST_SETTING = 200;

/** The present setting with one entry more. */
function settingWith(allow: Allow, entry: string): string {
  const words = [allow.core ? "core" : undefined, allow.api ? "api" : undefined].filter((word) => word !== undefined);
  const classes = [...allow.classes].map((name) => `${CLASS_PREFIX}${name}`);
  const setting = `COMFYUI_ALLOW=${[...words, ...allow.packs, ...classes, entry].join(",")}`;
  return setting.length > LONGEST_SETTING ? `COMFYUI_ALLOW=…,${entry}` : setting;
}

function append<Key>(groups: Map<Key, string[]>, key: Key, name: string): void {
  const group = groups.get(key);
  if (group === undefined) groups.set(key, [name]);
  else group.push(name);
}

function byName<Key>(groups: ReadonlyMap<Key, string[]>, nameOf: (key: Key) => string): [Key, string[]][] {
  return [...groups].sort(([a], [b]) => (nameOf(a) < nameOf(b) ? -1 : 1));
}
