import type { Json, JsonObject } from "./python-json.ts";

const GIB = 2 ** 30;
const VRAM_TOTAL = 24 * GIB;

/** `/system_stats` as a machine of version 0.33.0 gave it, with one CUDA device or, as recorded, only its processor. */
export function systemStats(version: string, argv: readonly string[], gpu: boolean, vramChange: number): Json {
  const [ram_total, ram_free] = [25_276_502_016, 23_678_271_488];
  const vram_free = VRAM_TOTAL - 2 * GIB + vramChange;
  const cuda: JsonObject = {
    name: "cuda:0 NVIDIA GeForce RTX 4090 : cudaMallocAsync",
    type: "cuda",
    index: 0,
    vram_total: VRAM_TOTAL,
    vram_free,
    torch_vram_total: 4 * GIB,
    torch_vram_free: GIB,
  };
  const cpu: JsonObject = {
    name: "cpu",
    type: "cpu",
    index: null,
    vram_total: ram_total,
    vram_free: ram_free + vramChange,
    torch_vram_total: ram_total,
    torch_vram_free: ram_free,
  };
  const packages = {
    "comfyui-frontend-package": "1.49.6",
    "comfyui-workflow-templates": "0.11.44",
    "comfyui-embedded-docs": "0.5.10",
    "comfy-kitchen": "0.2.31",
    "comfy-aimdo": "0.4.13",
  };
  return {
    system: {
      os: "linux",
      ram_total,
      ram_free,
      comfyui_version: version,
      required_frontend_version: packages["comfyui-frontend-package"],
      installed_templates_version: null,
      required_templates_version: packages["comfyui-workflow-templates"],
      comfy_package_versions: Object.entries(packages).map(([name, required]) => ({ name, installed: null, required })),
      python_version: "3.11.2 (main, Apr 28 2025, 14:11:48) [GCC 12.2.0]",
      pytorch_version: "1.13.0a0",
      embedded_python: false,
      deploy_environment: "local-git",
      argv: [...argv],
    },
    devices: [gpu ? cuda : cpu],
  };
}

export const features = (max_upload_size: number): JsonObject => ({
  supports_preview_metadata: true,
  supports_model_type_tags: true,
  max_upload_size,
  extension: { manager: { supports_v4: true } },
  node_replacements: true,
  assets: false,
});

export const MODEL_FOLDERS: readonly string[] = [
  "checkpoints",
  "configs",
  "loras",
  "vae",
  "text_encoders",
  "diffusion_models",
  "clip_vision",
  "style_models",
  "embeddings",
  "diffusers",
  "vae_approx",
  "controlnet",
  "gligen",
  "upscale_models",
  "latent_upscale_models",
  "custom_nodes",
  "datasets",
  "hypernetworks",
  "photomaker",
  "classifiers",
  "model_patches",
  "audio_encoders",
  "background_removal",
  "frame_interpolation",
  "geometry_estimation",
  "optical_flow",
  "detection",
];
