import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { extname, join, normalize, resolve } from "node:path";
import { type Folders, isFolderType, isInside } from "./folders.ts";
import type { KnobSettings } from "./knobs.ts";
import { type FormPart, formParts } from "./multipart.ts";
import { Trouble } from "./python-error.ts";
import { type Call, empty, json, type Reply } from "./reply.ts";

const LONGEST_NAME = 255;

/** Where the bytes go: the given name, or "name (1).png" and so on where other bytes are there. */
function freeName(folder: string, name: string, content: Buffer): { readonly name: string; readonly isThere: boolean } {
  const extension = extname(name);
  const stem = name.slice(0, name.length - extension.length);
  let candidate = name;
  for (let i = 1; existsSync(resolve(folder, candidate)); i++) {
    if (readFileSync(resolve(folder, candidate)).equals(content)) return { name: candidate, isThere: true };
    candidate = `${stem} (${i})${extension}`;
  }
  return { name: candidate, isThere: false };
}

/** `POST /upload/image`. */
export function upload(call: Call, folders: Folders, knobs: KnobSettings): Reply {
  if (knobs.refusesUploads !== undefined) return empty(knobs.refusesUploads);
  const parts = formParts(call.headers["content-type"] ?? "", call.body);
  const value = (name: string): string | undefined => parts.get(name)?.content.toString();
  const type = value("type") ?? "input";
  const image: FormPart | undefined = parts.get("image");
  if (image === undefined) return empty(400);
  if (image.filename === undefined) throw new Trouble("'str' object has no attribute 'file'");
  if (!isFolderType(type)) throw new Trouble("expected str, bytes or os.PathLike object, not NoneType");
  const subfolder = value("subfolder") ?? "";
  const root = folders.of(type);
  const folder = join(root, normalize(subfolder));
  // As os.path.join: an absolute name starts anew.
  if (!isInside(root, resolve(folder, image.filename))) {
    if (image.filename.startsWith("/")) throw new Trouble("Paths don't have the same drive");
    return empty(400);
  }
  mkdirSync(folder, { recursive: true });
  const overwrites = ["true", "1"].includes(value("overwrite") ?? "");
  const { name, isThere } = overwrites
    ? { name: image.filename, isThere: false }
    : freeName(folder, image.filename, image.content);
  if (!isThere) {
    const path = resolve(folder, name);
    if (name.length > LONGEST_NAME || !existsSync(resolve(path, ".."))) throw new Trouble(`cannot write ${path}`);
    writeFileSync(path, image.content);
  }
  return json({ name, subfolder, type });
}
