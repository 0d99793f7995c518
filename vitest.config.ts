import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import { TEST_BINDINGS } from "./tests/worker/bindings.ts";

const migrations = await readD1Migrations("./worker/directory/migrations");

/** Against a server that somebody else has started; never part of `npm test` by itself. */
const comfyui = {
  test: {
    name: "comfyui",
    environment: "node" as const,
    include: ["tests/comfyui/**/*.test.ts"],
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
};

export default defineConfig({
  test: {
    // The Worker logs every refusal; that is of interest where a test fails.
    silent: "passed-only",
    projects: [
      {
        plugins: [
          cloudflareTest({
            main: "./worker/index.ts",
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: { bindings: { ...TEST_BINDINGS, DIRECTORY_MIGRATIONS: migrations } },
          }),
        ],
        test: {
          name: "worker",
          include: ["tests/{worker,contract}/**/*.test.ts"],
          testTimeout: 60_000,
          setupFiles: ["./tests/worker/setup.ts"],
          // It ships CommonJS and ES modules mixed; bundled it imports.
          deps: { optimizer: { ssr: { enabled: true, include: ["itty-durable"] } } },
        },
      },
      {
        test: {
          name: "node",
          environment: "node",
          include: ["tests/{schemas,account,fleet,simulation,gpu-runner,scripts,receivers}/**/*.test.ts"],
          testTimeout: 30_000,
        },
      },
      {
        test: {
          name: "e2e",
          environment: "node",
          include: ["tests/{e2e,browser}/**/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          // Each starts a service and runners of its own; two cores are shared.
          fileParallelism: false,
        },
      },
      ...(process.env.COMFYUI_URL ? [comfyui] : []),
    ],
  },
});
