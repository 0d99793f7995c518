import { type ObjectInfo, readObjectInfo } from "../../../gpu-runner/engines/comfyui/object-info.ts";
import { type GraphPlan, planGraph } from "../../../gpu-runner/engines/comfyui/plan.ts";

const core = (required: object, output_node = false, optional: object = {}) => ({
  input: { required, optional },
  output_node,
  python_module: "nodes",
});

/** Some classes as `GET /object_info` tells them. */
export const SMALL_INFO = {
  EmptyImage: core({ width: ["INT", { min: 1, max: 16384 }], height: ["INT"] }),
  ImageScale: core({ image: ["IMAGE"], crop: [["disabled", "center"]] }),
  LoadImage: core({ image: [["example.png"], { image_upload: true }] }),
  SaveImage: core({ images: ["IMAGE"], filename_prefix: ["STRING"] }, true),
  SaveVideo: core({ video: ["VIDEO"], format: ["COMBO", { options: ["mp4"] }] }, true, { filename_prefix: ["STRING"] }),
  ManualSigmas: core({ sigmas: ["STRING"] }, true),
  BatchImages: core({ images: ["COMFY_AUTOGROW_V3", {}], size: ["INT"] }),
  PackSave: { ...core({ path: ["STRING"] }, true), python_module: "custom_nodes.pack" },
};

export function smallInfo(): ObjectInfo {
  const info = readObjectInfo(SMALL_INFO);
  if (!info) throw new Error("no classes");
  return info;
}

export const planOf = (graph: object | string, options: { ownFiles?: boolean; open?: readonly string[] } = {}) => {
  const info = smallInfo();
  const text = typeof graph === "string" ? graph : JSON.stringify(graph);
  return planGraph(text, info, new Set(options.open ?? info.keys()), { ownFiles: options.ownFiles ?? false });
};

/** Of a graph that is accepted. */
export function acceptedPlan(graph: object | string): GraphPlan {
  const planned = planOf(graph);
  if (!planned.ok) throw new Error(planned.error.message);
  return planned.plan;
}

export const empty = { class_type: "EmptyImage", inputs: { width: 8, height: 8 } };
export const save = (from: string, inputs: object = {}) => ({
  class_type: "SaveImage",
  inputs: { images: [from, 0], filename_prefix: "picture", ...inputs },
});
