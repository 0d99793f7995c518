import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { Engine, EngineFailureCode, EngineProgress, EngineResult } from "../../gpu-runner/engine.ts";

/** One engine and the graphs to try it with. */
export interface EngineSubject {
  readonly engine: Engine;
  readonly prompts: {
    /** Ends soon and saves from nodes "9" and "10", from "10" at least two files. */
    readonly outputs: string;
    /** Works for at least three seconds if left alone. */
    readonly slow: string;
    /** A well-formed graph that a node of it can't execute. */
    readonly failing: { readonly prompt: string; readonly code: EngineFailureCode; readonly node_id: string };
    /** Names a class that the engine does not have, in node "1". */
    readonly missingClass: string;
  };
  /** Takes away what stands around the engine; the engine is closed before. */
  dispose?(): Promise<void>;
}

export async function scratchFolder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "darkroom-engine-"));
  onTestFinished(() => rm(path, { recursive: true, force: true }));
  return path;
}

async function bytesOf(output: { open(): AsyncIterable<Uint8Array> }): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of output.open()) parts.push(part);
  return Buffer.concat(parts);
}

/** Resolves with the first progress of a run, so that the run is known to be at work. */
function firstProgress(): { readonly seen: Promise<void>; readonly onProgress: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { seen: promise, onProgress: () => resolve() };
}

/** What every engine must do; gpu-runner/engine.ts is the text of it. */
export function engineContract(name: string, makeEngine: () => Promise<EngineSubject>): void {
  describe(`The ${name} engine keeps the engine contract`, () => {
    let subject: EngineSubject;
    beforeAll(async () => {
      subject = await makeEngine();
    });
    afterAll(async () => {
      await subject.engine.close();
      await subject.dispose?.();
    });

    const run = async (
      prompt: string,
      own: { signal?: AbortSignal; onProgress?: (p: EngineProgress) => void } = {},
    ) => {
      const scratch = await scratchFolder();
      const { signal = new AbortController().signal, onProgress = () => {} } = own;
      return { scratch, result: await subject.engine.run(prompt, { signal, onProgress, scratch }) };
    };

    it("describes itself with a name, a version and its classes", async () => {
      const description = await subject.engine.describe();
      expect(description.name).toMatch(/^[a-z][a-z0-9-]*$/);
      expect(description.version).not.toBe("");
      expect(description.classes.length).toBeGreaterThan(0);
      expect(new Set(description.classes).size).toBe(description.classes.length);
      for (const model of description.models) expect(model).not.toBe("");
    });

    it("returns the outputs by node id and index, readable more than once", async () => {
      const { result } = await run(subject.prompts.outputs);
      if (!result.ok) throw new Error(JSON.stringify(result));
      const places = result.outputs.map(({ node_id, index }) => `${node_id}.${index}`);
      expect(places.slice(0, 3)).toEqual(["9.0", "10.0", "10.1"]);
      for (const output of result.outputs) {
        expect(output.filename).toMatch(/^[^/\\\p{Cc}]+$/u);
        const bytes = await bytesOf(output);
        expect(bytes.length).toBeGreaterThan(0);
        expect((await bytesOf(output)).equals(bytes)).toBe(true);
      }
      expect(result.execution_ms).toBeGreaterThan(0);
      expect(result.download_ms).toBeGreaterThanOrEqual(0);
    });

    it("tells a progress that never falls, and nothing after the end", async () => {
      const values: number[] = [];
      const { result } = await run(subject.prompts.outputs, { onProgress: ({ value }) => values.push(value) });
      expect(result.ok).toBe(true);
      const told = values.length;
      expect(told).toBeGreaterThan(0);
      expect(values).toEqual(values.toSorted((a, b) => a - b));
      expect(values.every((value) => value >= 0 && value <= 1)).toBe(true);
      await run(subject.prompts.outputs);
      expect(values.length).toBe(told);
    });

    it("ends a run whose node fails as a value, with code, node and a message of at most 2 KiB", async () => {
      const { prompt, code, node_id } = subject.prompts.failing;
      const { result } = await run(prompt);
      expect(result).toMatchObject({ ok: false, reason: "failed", error: { code, node_id } });
      const message = !result.ok && result.reason === "failed" ? result.error.message : "";
      expect(message).not.toBe("");
      expect(Buffer.byteLength(message)).toBeLessThanOrEqual(2048);
    });

    it("names the node of an unknown class as missing_node", async () => {
      const { result } = await run(subject.prompts.missingClass);
      expect(result).toMatchObject({ ok: false, reason: "failed", error: { code: "missing_node", node_id: "1" } });
    });

    it("refuses a prompt that is no graph", async () => {
      for (const prompt of ["", "null", "[]", "{}", '{"1":', '{"1":5}']) {
        const { result } = await run(prompt);
        expect(result).toMatchObject({ ok: false, reason: "failed", error: { code: "invalid_prompt" } });
      }
    });

    it("interrupts a run whose signal is aborted, and is idle then", async () => {
      const controller = new AbortController();
      const { seen, onProgress } = firstProgress();
      const running = run(subject.prompts.slow, { signal: controller.signal, onProgress });
      await seen;
      controller.abort();
      const { result, scratch } = await running;
      expect(result).toMatchObject({ ok: false, reason: "interrupted" });
      const left = await readdir(scratch);
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect(await readdir(scratch)).toEqual(left);
      expect((await run(subject.prompts.outputs)).result.ok).toBe(true);
    });

    it("does not start a run whose signal is aborted already", async () => {
      const { result } = await run(subject.prompts.slow, { signal: AbortSignal.abort() });
      expect(result).toMatchObject({ ok: false, reason: "interrupted" });
    });

    it("keeps overlapping runs apart: one is interrupted, the other has its outputs", async () => {
      const controller = new AbortController();
      const { seen, onProgress } = firstProgress();
      const slow = run(subject.prompts.slow, { signal: controller.signal, onProgress });
      const quick = run(subject.prompts.outputs);
      await seen;
      controller.abort();
      expect((await slow).result).toMatchObject({ ok: false, reason: "interrupted" });
      expect((await quick).result.ok).toBe(true);
    });

    it("settles its runs as interrupted when it is closed, however often that is", async () => {
      const own = await makeEngine();
      const { seen, onProgress } = firstProgress();
      const options = { signal: new AbortController().signal, onProgress, scratch: await scratchFolder() };
      const running: Promise<EngineResult> = own.engine.run(own.prompts.slow, options);
      await seen;
      await Promise.all([own.engine.close(), own.engine.close()]);
      expect(await running).toMatchObject({ ok: false, reason: "interrupted" });
      await own.engine.close();
      await own.dispose?.();
    });
  });
}
