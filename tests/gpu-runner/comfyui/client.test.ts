import { expect, test } from "vitest";
import { Unreachable } from "../../../gpu-runner/engines/comfyui/client.ts";

const coded = (code: string) => Object.assign(new Error("connect"), { code });

test("a name with two addresses at which nobody listens is gone, as one address is", () => {
  const both = new AggregateError([coded("ECONNREFUSED"), coded("ECONNREFUSED")]);
  expect(new Unreachable("/queue", new TypeError("fetch failed", { cause: both })).gone).toBe(true);
  expect(new Unreachable("/queue", new TypeError("fetch failed", { cause: coded("ECONNREFUSED") })).gone).toBe(true);
});

test("what answers slowly, breaks off, or can be reached at one address is not gone", () => {
  const one = new AggregateError([coded("ECONNREFUSED"), coded("ETIMEDOUT")]);
  for (const cause of [one, coded("ECONNRESET"), new Error("ECONNREFUSED said a page"), "answered 500"])
    expect(new Unreachable("/queue", cause).gone).toBe(false);
});
