import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { MUTATIONS } from "./mutations.ts";

/** A file without its rule. Throws where the rule's text is not found exactly once. */
export function mutated(name: string): { readonly url: URL; readonly source: string } {
  const mutation = MUTATIONS.find((one) => one.name === name);
  if (!mutation) throw new Error(`There is no mutation ${name}.`);
  const url = new URL(`../../${mutation.file}`, import.meta.url);
  const text = readFileSync(url, "utf8");
  const found = text.split(mutation.find).length - 1;
  if (found !== 1) throw new Error(`${name}: its text is found ${found} times in ${mutation.file}, not once.`);
  return { url, source: text.replace(mutation.find, () => mutation.put) };
}

/**
 * Takes one rule out of the product: from now on its file is loaded with another text. Says whether the file has been loaded.
 */
export function takeOut(name: string): () => boolean {
  const { url, source } = mutated(name);
  let loaded = false;
  registerHooks({
    load(address, context, next) {
      if (address !== url.href) return next(address, context);
      loaded = true;
      return { format: "module-typescript", source, shortCircuit: true };
    },
  });
  return () => loaded;
}
