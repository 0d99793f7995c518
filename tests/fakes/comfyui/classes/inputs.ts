import { PythonError } from "../python-error.ts";
import { Mask, Picture } from "../values.ts";
import type { Values } from "../node-class.ts";

/** Inputs of a running node, which validation has let through with the right types. */
export function picture(inputs: Values, name: string): Picture {
  const value = inputs[name];
  if (value instanceof Picture) return value;
  throw new PythonError("AttributeError", `'${typeof value}' object has no attribute 'shape'`);
}

export function mask(inputs: Values, name: string): Mask {
  const value = inputs[name];
  if (value instanceof Mask) return value;
  throw new PythonError("AttributeError", `'${typeof value}' object has no attribute 'shape'`);
}

export const text = (inputs: Values, name: string): string => String(inputs[name] ?? "");

export const number = (inputs: Values, name: string): number => Number(inputs[name]);
