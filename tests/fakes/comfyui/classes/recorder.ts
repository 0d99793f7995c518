import sharp from "sharp";
import type { NodeClass, NodeContext, NodeResult, Values } from "../node-class.ts";
import { type Described, describedInfo, type InputSpec, recordedInfo } from "../object-info.ts";
import { PythonError, ProcessDeath, WorkerDeath } from "../python-error.ts";
import { Blocked, type Picture } from "../values.ts";
import { number, picture, text } from "./inputs.ts";

const IMAGE: InputSpec = ["IMAGE"];
const MILLISECONDS: InputSpec = ["INT", { default: 100, min: 0, max: 600000 }];

/** What a TestFail raises, by kind; also the ends of a thread and of the process. */
const FAILURES: Readonly<Record<string, (message: string) => Error>> = {
  value: (message) => new PythonError("ValueError", message),
  key: (message) => new PythonError("KeyError", `'${message}'`),
  empty: () => new PythonError("RuntimeError", ""),
  oom: (message) => new PythonError("torch.cuda.OutOfMemoryError", message),
  "oom of a newer torch": (message) => new PythonError("torch.OutOfMemoryError", message),
  "device lost": () =>
    new PythonError("RuntimeError", "CUDA error: unspecified launch failure\nCompile with `TORCH_USE_CUDA_DSA`"),
  worker: () => new WorkerDeath(),
  process: () => new ProcessDeath(),
};

async function preview(image: Picture) {
  const { width, height, frames } = image;
  const raw = { width, height, channels: 3 as const };
  return {
    image: await sharp(frames[0] ?? Buffer.alloc(0), { raw })
      .jpeg()
      .toBuffer(),
    format: "jpeg" as const,
  };
}

function recorder(
  described: Described,
  run: (inputs: Values, context: NodeContext) => NodeResult | Promise<NodeResult>,
  isAsync = false,
): (name: string) => NodeClass {
  return (name) => {
    const info = describedInfo(name, described);
    return { info: () => info, isAsync, run };
  };
}

const passing = (inputs: Values): NodeResult => ({ outputs: [picture(inputs, "image")] });

const NAMED: Readonly<Record<string, (name: string) => NodeClass>> = {
  TestBlock: recorder(
    { required: { image: IMAGE, ms: MILLISECONDS }, output: ["IMAGE"] },
    async (inputs, { sleep }) => {
      await sleep(number(inputs, "ms"));
      return passing(inputs);
    },
  ),
  TestAsync: recorder(
    { required: { image: IMAGE, ms: MILLISECONDS }, output: ["IMAGE"] },
    async (inputs, { sleep }) => {
      await sleep(number(inputs, "ms"));
      return passing(inputs);
    },
    true,
  ),
  TestFail: recorder(
    {
      required: {
        image: IMAGE,
        kind: [Object.keys(FAILURES)],
        message: ["STRING", { default: "the test node failed" }],
      },
      output: ["IMAGE"],
    },
    (inputs) => {
      const failure = FAILURES[text(inputs, "kind")];
      throw failure === undefined ? new PythonError("ValueError", "") : failure(text(inputs, "message"));
    },
  ),
  TestBlocker: recorder(
    { required: { image: IMAGE, message: ["STRING", { default: "" }] }, output: ["IMAGE"] },
    (inputs) => ({ outputs: [new Blocked(text(inputs, "message") || null)] }),
  ),
  TestExpand: recorder(
    { required: { image: IMAGE, fail: ["BOOLEAN", { default: false }] }, output: ["IMAGE"] },
    (inputs) => ({
      // A link to "^" is the input of the same name of the node that expands.
      expand: {
        "1": { class_type: "ImageInvert", inputs: { image: ["^", 0] } },
        "2": { class_type: "TestSlow", inputs: { image: ["1", 0], steps: 2, step_ms: 60, preview: false } },
        "3":
          inputs.fail === true
            ? { class_type: "TestFail", inputs: { image: ["2", 0], kind: "value", message: "failed inside" } }
            : { class_type: "PreviewImage", inputs: { images: ["2", 0] } },
      },
      links: [inputs.fail === true ? ["3", 0] : ["2", 0]],
    }),
  ),
  TestListOut: recorder({ required: { image: IMAGE }, output: ["IMAGE"], output_is_list: [true] }, (inputs) => {
    const image = picture(inputs, "image");
    return { outputs: [[image, image]] };
  }),
  TestText: recorder(
    { required: { text: ["STRING", { default: "" }] }, output: ["STRING"], output_node: true },
    (inputs) => ({
      outputs: [text(inputs, "text")],
      ui: { text: [text(inputs, "text")] },
    }),
  ),
  TestOtherOutputs: recorder({ required: { image: IMAGE }, output_node: true }, () => ({
    ui: {
      gifs: [{ filename: "clip_00001.mp4", subfolder: "", type: "output", format: "video/h264-mp4", frame_rate: 8 }],
      audio: [{ filename: "sound_00001_.flac", subfolder: "audio", type: "output" }],
      count: [3],
      nothing: [null],
      name: ["model.glb"],
    },
  })),
  /** Numbers that JSON does not have: bare NaN and Infinity in the message and in the history. */
  TestNaN: recorder({ required: { image: IMAGE }, output_node: true }, () => ({
    ui: { score: [Number.NaN, Number.POSITIVE_INFINITY] },
  })),
  /** A ui that names files that were never written. */
  TestMissingFile: recorder({ required: { image: IMAGE, filename: ["STRING", {}] }, output_node: true }, (inputs) => ({
    ui: { images: [{ filename: text(inputs, "filename"), subfolder: "", type: "output" }] },
  })),
};

/** The classes that the recorder added to the server, and some more that do damage. */
export const RECORDER_CLASSES: Readonly<Record<string, NodeClass>> = {
  ...Object.fromEntries(Object.entries(NAMED).map(([name, make]) => [name, make(name)])),
  TestSlow: {
    info: () => recordedInfo("TestSlow"),
    async run(inputs, context) {
      const steps = number(inputs, "steps");
      const shown = inputs.preview === true ? await preview(picture(inputs, "image")) : undefined;
      for (let step = 1; step <= steps; step++) {
        await context.sleep(number(inputs, "step_ms"));
        context.step(step, steps, shown);
      }
      return passing(inputs);
    },
  },
};
