import { resolve } from "node:path";
import { expect, test } from "vitest";
import { parseConfig } from "../../gpu-runner/config.ts";

const ADDRESSES = ["--edge", "https://darkroom.example/", "--url", "https://gpu.example:8443"];

function mistakes(args: readonly string[], env = {}): readonly string[] {
  const parsed = parseConfig(args, env);
  return parsed.kind === "wrong" ? parsed.mistakes : [];
}

test("flags and defaults make a configuration, with addresses spelled without a slash at the end", () => {
  expect(parseConfig([...ADDRESSES, "--name", "gpu-1"], {})).toEqual({
    kind: "run",
    config: {
      edge: "https://darkroom.example",
      url: "https://gpu.example:8443",
      listen: { host: "0.0.0.0", port: 8090 },
      name: "gpu-1",
      seats: 1,
      data: resolve(".darkroom-runner"),
      inputs: resolve(".darkroom-runner/inputs"),
      grace_ms: 60_000,
    },
  });
});

test("the environment stands in for absent flags", () => {
  const token = `dre_default_${"a".repeat(43)}`;
  const env = { DARKROOM_EDGE: "http://127.0.0.1:8787", DARKROOM_RUNNER_URL: "http://localhost:8090" };
  const parsed = parseConfig(["--url", "http://127.0.0.1:9000"], { ...env, DARKROOM_ENROL_TOKEN: token });
  expect(parsed).toMatchObject({ config: { edge: env.DARKROOM_EDGE, url: "http://127.0.0.1:9000", token } });
});

test("every mistake has a line of its own, and none quotes the token", () => {
  const found = mistakes(["--seats", "0", "--grace", "1h", "--listen", "8090", "--token", "secret", "--name", ""]);
  expect(found).toHaveLength(7);
  expect(found.join("\n")).not.toContain("secret");
  expect(found[0]).toBe("--edge (or DARKROOM_EDGE) is missing");
});

test.each([
  ["http://darkroom.example", "https://gpu.example"],
  ["https://darkroom.example?x=1", "https://gpu.example"],
  ["https://darkroom.example", "http://gpu.example"],
  ["https://darkroom.example", "https://10.0.0.1"],
  ["https://darkroom.example", "https://user@gpu.example"],
  ["darkroom", "https://gpu.example"],
])("the addresses %s and %s are refused", (edge, url) => {
  expect(mistakes(["--edge", edge, "--url", url])).toHaveLength(1);
});

test("an unknown flag is named", () => {
  expect(mistakes([...ADDRESSES, "--seat", "2"]).join()).toContain("--seat");
});

test("IPv6 addresses are listened on in brackets", () => {
  expect(parseConfig([...ADDRESSES, "--listen", "[::]:0"], {})).toMatchObject({
    config: { listen: { host: "::", port: 0 } },
  });
});
