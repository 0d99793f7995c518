import * as v from "valibot";

/** An object that came out of a JSON parser. What its members hold is looked at only by whoever checks them. */
export type JsonObject = { [key: string]: string | number | boolean | null | object };
export const JsonObject = v.custom<JsonObject>(
  (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  "must be an object",
);
