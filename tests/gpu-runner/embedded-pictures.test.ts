import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import sharp from "sharp";
import { afterAll, describe, expect, it } from "vitest";
import { createEmbeddedEngine } from "../../gpu-runner/engines/embedded/engine.ts";
import { empty, type Graph, node, save } from "./embedded-graphs.ts";
import { scratchFolder } from "./engine-contract.ts";

const pictures = fileURLToPath(new URL("./pictures", import.meta.url));
const engine = createEmbeddedEngine({ inputs: pictures });
afterAll(() => engine.close());

interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly data: Buffer;
}

async function decode(source: string | Buffer): Promise<Pixels> {
  const { data, info } = await sharp(source).raw().toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, data };
}

/** The pictures that a graph saves, by `node.index`. */
async function render(prompt: string): Promise<ReadonlyMap<string, Pixels>> {
  const scratch = await scratchFolder();
  const result = await engine.run(prompt, { signal: new AbortController().signal, onProgress: () => {}, scratch });
  if (!result.ok) throw new Error(JSON.stringify(result));
  const rendered = new Map<string, Pixels>();
  for (const { node_id, index, open } of result.outputs) {
    const parts: Uint8Array[] = [];
    for await (const part of open()) parts.push(part);
    rendered.set(`${node_id}.${index}`, await decode(Buffer.concat(parts)));
  }
  return rendered;
}

const first = async (graph: Graph): Promise<Pixels> => {
  const [picture] = (await render(JSON.stringify(graph))).values();
  if (!picture) throw new Error("Nothing was saved.");
  return picture;
};

const differences = (a: Buffer, b: Buffer): number[] => [...a].map((value, i) => Math.abs(value - (b[i] ?? 0)));

/**
 * How many values may be one step of 255 away from ComfyUI's: only where the exact result is a whole step and the last bit of
 * a float decides between it and the one below.
 */
const ONE_STEP_OFF = new Map([
  ["03-scale-down.101", 0.003],
  ["03-scale-down.103", 0.025],
]);

describe("The same graph gives the same picture as in ComfyUI", () => {
  const files = readdirSync(pictures);
  const graphs = files.filter((file) => file.endsWith(".json"));

  it.each(graphs)("%s", async (file) => {
    const name = file.slice(0, -".json".length);
    const rendered = await render(await readFile(`${pictures}/${file}`, "utf8"));
    const recorded = files.filter((other) => other.startsWith(`${name}.`) && other.endsWith(".png"));
    expect(rendered.size).toBe(recorded.length);
    for (const picture of recorded) {
      const [id = ""] = picture.slice(name.length + 1).split(".");
      const theirs = await decode(`${pictures}/${picture}`);
      const ours = rendered.get(`${id}.0`);
      expect([ours?.width, ours?.height], picture).toEqual([theirs.width, theirs.height]);
      const off = differences(ours?.data ?? Buffer.alloc(0), theirs.data).filter((step) => step > 0);
      expect(
        off.every((step) => step === 1),
        picture,
      ).toBe(true);
      const allowed = (ONE_STEP_OFF.get(`${name}.${id}`) ?? 0) * theirs.data.length;
      expect(off.length, picture).toBeLessThanOrEqual(allowed);
    }
  });
});

describe("Nodes beyond the recorded pictures", () => {
  const load = (image: string) => node("LoadImage", { image });
  const scale = (method: string, width: number, height: number, crop = "disabled") =>
    node("ImageScale", { image: ["1", 0], upscale_method: method, width, height, crop });

  it("LoadImage drops transparency without mixing colours", async () => {
    const loaded = await first({ "1": load("input-alpha.png"), "2": save("1") });
    const raw = await sharp(`${pictures}/input-alpha.png`).removeAlpha().raw().toBuffer();
    expect(loaded.data.equals(raw)).toBe(true);
  });

  it.each(["nearest-exact", "bilinear", "area", "bicubic", "lanczos"])(
    "ImageScale %s keeps an even colour when it enlarges",
    async (method) => {
      const grown = await first({ "1": empty({ color: 0x804020 }), "2": scale(method, 41, 23), "3": save("2") });
      expect([grown.width, grown.height]).toEqual([41, 23]);
      const even = Buffer.from(Array.from({ length: 41 * 23 }, () => [0x80, 0x40, 0x20]).flat());
      expect(Math.max(...differences(grown.data, even))).toBeLessThanOrEqual(1);
    },
  );

  it.each([
    [0, 32, 48, 32],
    [24, 0, 24, 16],
    [0, 0, 96, 64],
  ])("ImageScale to %i x %i gives %i x %i", async (width, height, ...size) => {
    const scaled = await first({ "1": load("input.png"), "2": scale("area", width, height), "3": save("2") });
    expect([scaled.width, scaled.height]).toEqual(size);
  });

  it("ImageScale with crop center takes the middle", async () => {
    const cropped = await first({
      "1": load("input.png"),
      "2": scale("nearest-exact", 64, 64, "center"),
      "3": save("2"),
    });
    const middle = await sharp(`${pictures}/input.png`)
      .extract({ left: 16, top: 0, width: 64, height: 64 })
      .raw()
      .toBuffer();
    expect(cropped.data.equals(middle)).toBe(true);
  });

  it("ImageBlend brings the second picture to the size of the first, bicubic and cropped", async () => {
    const blend = node("ImageBlend", { image1: ["3", 0], image2: ["1", 0], blend_factor: 1, blend_mode: "normal" });
    const graph = {
      "1": load("input2.png"),
      "2": scale("bicubic", 96, 64, "center"),
      "3": load("input.png"),
      "4": blend,
    };
    const rendered = await render(JSON.stringify({ ...graph, "5": save("2"), "6": save("4") }));
    expect(rendered.get("6.0")?.data.equals(rendered.get("5.0")?.data ?? Buffer.alloc(0))).toBe(true);
  });

  it("ImageBlend takes a batch with one picture", async () => {
    const blend = node("ImageBlend", { image1: ["1", 0], image2: ["2", 0], blend_factor: 0.5, blend_mode: "screen" });
    const rendered = await render(
      JSON.stringify({ "1": empty(), "2": empty({ batch_size: 3 }), "3": blend, "4": save("3") }),
    );
    expect([...rendered.keys()]).toEqual(["4.0", "4.1", "4.2"]);
  });

  it("ImageBlur mirrors the border and weighs by a sigma relative to the radius", async () => {
    const blurred = await first({
      "1": load("input.png"),
      "2": node("ImageBlur", { image: ["1", 0], blur_radius: 3, sigma: 0.7 }),
      "3": save("2"),
    });
    const { width, height, data } = await decode(`${pictures}/input.png`);
    const mirror = (i: number, length: number): number => (i < 0 ? -i : i >= length ? 2 * length - 2 - i : i);
    const weight = (x: number, y: number): number => Math.exp(-((x / 3) ** 2 + (y / 3) ** 2) / (2 * 0.7 ** 2));
    const around = [-3, -2, -1, 0, 1, 2, 3].flatMap((y) => [-3, -2, -1, 0, 1, 2, 3].map((x) => [x, y] as const));
    const total = around.reduce((sum, [x, y]) => sum + weight(x, y), 0);
    for (const [px, py, c] of [
      [0, 0, 0],
      [95, 63, 1],
      [1, 40, 2],
      [50, 30, 0],
      [70, 2, 1],
    ] as const) {
      const at = (x: number, y: number): number =>
        data[(mirror(py + y, height) * width + mirror(px + x, width)) * 3 + c] ?? 0;
      const expected = around.reduce((sum, [x, y]) => sum + at(x, y) * (weight(x, y) / total), 0);
      const got = blurred.data[(py * width + px) * 3 + c] ?? 0;
      expect(Math.abs(got - Math.floor(expected + 1e-4))).toBeLessThanOrEqual(1e-4 < expected % 1 ? 0 : 1);
    }
  });
});
