import { isObject, type Json } from "./json.ts";

/**
 * What a ComfyUI server says of its node classes (`GET /object_info`). Custom packs write these entries: every field is
 * looked at before it is used, and what is odd counts as absent.
 */

/** What an upload input of a class takes. */
export type UploadKind = "image" | "audio" | "video" | "any";

export interface InputSchema {
  readonly required: boolean;
  /** The values that the server takes, where the input is a list of them. */
  readonly options?: readonly string[];
  /** Set where the input is a file of the server's input folder that its user uploads. */
  readonly upload?: UploadKind;
  readonly min?: number;
  readonly max?: number;
  /** Set where it brings inputs of its own, which a graph names `input.name`. */
  readonly dynamic?: true;
}

export interface ClassSchema {
  readonly inputs: ReadonlyMap<string, InputSchema>;
  /** Whether a graph is executed for the sake of this node. */
  readonly output: boolean;
  /** Python module, such as `nodes`, `comfy_extras.nodes_mask` or `custom_nodes.some-pack`. */
  readonly module: string;
}

/** Whether a class is ComfyUI's own, by its module. */
export const isCoreModule = (module: string): boolean => module === "nodes" || module.startsWith("comfy_extras.");

export type ObjectInfo = ReadonlyMap<string, ClassSchema>;

/** The marks of upload inputs (`image_upload`, `animated_image_upload` and their kin), in the classic and in the newer schema. */
const UPLOAD_MARK = /^(?:\w+_)?([a-z]+)_upload$/;
const UPLOAD_KINDS: ReadonlyMap<string, UploadKind> = new Map([
  ["image", "image"],
  ["audio", "audio"],
  ["video", "video"],
]);

function uploadOf(options: Json): UploadKind | undefined {
  for (const [name, value] of Object.entries(options)) {
    const mark = UPLOAD_MARK.exec(name)?.[1];
    if (mark !== undefined && value === true) return UPLOAD_KINDS.get(mark) ?? "any";
  }
  return undefined;
}

const texts = (value: unknown): readonly string[] | undefined =>
  Array.isArray(value) ? value.filter((one) => typeof one === "string") : undefined;

/** The types of inputs that make others as they are needed. */
const DYNAMIC = /^COMFY_(?:AUTOGROW|DYNAMIC)/;

function readInput(entry: unknown, required: boolean): InputSchema {
  const [type, given] = Array.isArray(entry) ? entry : [];
  const settings = isObject(given) ? given : {};
  const options = texts(type) ?? (type === "COMBO" ? (texts(settings.options) ?? []) : undefined);
  const upload = uploadOf(settings);
  const { min, max } = settings;
  return {
    required,
    ...(options ? { options } : {}),
    ...(upload ? { upload } : {}),
    ...(typeof min === "number" ? { min } : {}),
    ...(typeof max === "number" ? { max } : {}),
    ...(typeof type === "string" && DYNAMIC.test(type) ? { dynamic: true } : {}),
  };
}

type Inputs = Map<string, InputSchema>;

function readGroups(groups: unknown, prefix: string, inputs: Inputs): void {
  if (!isObject(groups)) return;
  for (const group of ["required", "optional"] as const) {
    const members = groups[group];
    if (!isObject(members)) continue;
    for (const [name, input] of Object.entries(members)) {
      const schema = readInput(input, group === "required" && prefix === "");
      // Two choices may bring an input of one name: where one of them takes a file, it is one.
      const upload = schema.upload ?? inputs.get(`${prefix}${name}`)?.upload;
      inputs.set(`${prefix}${name}`, upload ? { ...schema, upload } : schema);
      readChoices(input, `${prefix}${name}.`, inputs);
    }
  }
}

/** A choice that brings inputs of its own: a graph names them `choice.input`. */
function readChoices(entry: unknown, prefix: string, inputs: Inputs): void {
  const [type, settings] = Array.isArray(entry) ? entry : [];
  if (type !== "COMFY_DYNAMICCOMBO_V3" || !isObject(settings) || !Array.isArray(settings.options)) return;
  for (const option of settings.options) if (isObject(option)) readGroups(option.inputs, prefix, inputs);
}

function readClass(entry: Json): ClassSchema {
  const inputs: Inputs = new Map();
  readGroups(entry.input, "", inputs);
  return {
    inputs,
    output: entry.output_node === true,
    module: typeof entry.python_module === "string" ? entry.python_module : "",
  };
}

/** Reads the answer of `GET /object_info`; undefined where it is no object of classes. */
export function readObjectInfo(value: unknown): ObjectInfo | undefined {
  if (!isObject(value)) return undefined;
  const classes = new Map<string, ClassSchema>();
  for (const [name, entry] of Object.entries(value)) if (isObject(entry)) classes.set(name, readClass(entry));
  return classes.size > 0 ? classes : undefined;
}
