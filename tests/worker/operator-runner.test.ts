import { beforeEach, describe, expect, it, vi } from "vitest";
import { Person } from "./person.ts";
import { DESCRIPTION, PlayedRunner, playInternet } from "./played-runner.ts";

/** The page of one runner, as a browser without script uses it. */

beforeEach(() => {
  vi.restoreAllMocks();
  playInternet();
});

const EVIL = "<script>alert(1)</script>";
const FULL = {
  ...DESCRIPTION,
  engine: { name: "comfyui", version: "0.9.9" },
  gpu: { name: "NVIDIA Example", memory_bytes: 24 * 1024 ** 3 },
  models: ["sd.safetensors", `${EVIL}.ckpt`],
  closed: [
    { group: "a-pack", classes: ["PackOne", `Pack ${EVIL}`], reason: `Not opened ${EVIL}`, opened_by: "--open a-pack" },
    { group: `core: ${EVIL}`, classes: ["ModelSave"], reason: "They write to the disk." },
  ],
};

describe("a runner's page", () => {
  it("shows what it is, and its closed classes by group with reason and what opens them, all escaped", async () => {
    const ada = await Person.make();
    const pool = "runner-page";
    const runner = await PlayedRunner.ready(pool);
    await runner.beat({ describe: FULL, seats: 0 });
    const path = `/runners/${runner.runner_id}?pool=${pool}`;
    const fleet = await ada.page(`?pool=${pool}`);
    expect(fleet).toContain(`<a href="/portal/operator${path}">played</a>`);
    expect(fleet).toContain("3 closed classes");
    expect(fleet).toContain("offers none now");
    const html = await ada.page(path);
    for (const text of [
      "Runner played",
      "comfyui 0.9.9",
      "NVIDIA Example, 24 GiB",
      "0 of 0",
      "at most 8",
      "3 node classes in 2 groups",
      "<summary>2 classes</summary>",
      "<summary>1 class</summary>",
      "<li>PackOne</li>",
      "<code>--open a-pack</code>",
      "nothing but opening everything",
      "<summary>2 model files</summary>",
      "<li>sd.safetensors</li>",
      `href="/portal/operator/runners/${runner.runner_id}/drain?pool=${pool}"`,
    ])
      expect(html, text).toContain(text);
    expect(html).not.toContain("<script>");
    expect(html.split("&lt;script&gt;alert(1)&lt;/script&gt;")).toHaveLength(5);
    expect(html).not.toMatch(/ style=|<style|<script(?! src="\/portal\/assets\/)/);
  });

  it("says so where nothing is closed, no model is known, or nothing was described yet", async () => {
    const ada = await Person.make();
    const runner = await PlayedRunner.ready("runner-page-plain");
    const html = await ada.page(`/runners/${runner.runner_id}?pool=runner-page-plain`);
    expect(html).toContain("Its engine keeps no node class closed.");
    expect(html).toContain("Its engine names no model file.");
    expect(html).not.toContain("<details>");
    expect(await ada.page("?pool=runner-page-plain")).not.toContain("closed class");
  });

  it("is there for operators only, and for runners of its pool", async () => {
    const ada = await Person.make();
    const { runner_id } = await PlayedRunner.ready("runner-page-there");
    const path = `/runners/${runner_id}?pool=runner-page-there`;
    expect((await ada.get(path)).status).toBe(200);
    expect((await (await Person.make({ operator: false })).get(path)).status).toBe(404);
    for (const other of [
      `/runners/${runner_id}?pool=runner-page-elsewhere`,
      "/runners/rnr_00000000000000000000?pool=runner-page-there",
      "/runners/nonsense?pool=runner-page-there",
    ])
      expect((await ada.get(other)).status, other).toBe(404);
    expect((await ada.get(`/runners/${runner_id}?pool=../x`)).status).toBe(400);
  });

  it("stays when the runner is revoked, and offers nothing more to do", async () => {
    const ada = await Person.make();
    const pool = "runner-page-revoked";
    const { runner_id } = await PlayedRunner.ready(pool);
    await ada.post(`/runners/${runner_id}/revoke`, { pool });
    const html = await ada.page(`/runners/${runner_id}?pool=${pool}`);
    expect(html).toContain("revoked");
    expect(html).not.toContain(`/portal/operator/runners/${runner_id}/`);
  });
});
