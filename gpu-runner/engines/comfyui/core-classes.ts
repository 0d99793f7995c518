import { basics } from "./core-classes/basics.ts";
import { images } from "./core-classes/images.ts";
import { modelFamilies } from "./core-classes/model-families.ts";
import { models } from "./core-classes/models.ts";
import { nodes } from "./core-classes/nodes.ts";
import type { ModuleReview, ReviewReason } from "./core-classes/review.ts";
import { sampling } from "./core-classes/sampling.ts";
import { threeD } from "./core-classes/three-d.ts";
import { videoAndAudio } from "./core-classes/video-and-audio.ts";

/** The version of ComfyUI that was reviewed. */
export const REVIEWED_VERSION = "0.33.0";

/** Its modules. What only older or newer versions have is not reviewed. */
export const reviewedModules: readonly ModuleReview[] = [
  ...nodes,
  ...basics,
  ...images,
  ...videoAndAudio,
  ...threeD,
  ...sampling,
  ...models,
  ...modelFamilies,
];

/** What was decided for a class, and where it is defined. */
export interface CoreClass {
  readonly module: string;
  readonly verdict: "open" | ReviewReason;
}

/** What was decided for each core class. A class that is not here was not reviewed, and stays closed. */
export const coreClasses: ReadonlyMap<string, CoreClass> = new Map(
  reviewedModules.flatMap(({ module, open, closed = {} }) => [
    ...open.map((name): [string, CoreClass] => [name, { module, verdict: "open" }]),
    ...Object.entries(closed).map(([name, verdict]): [string, CoreClass] => [name, { module, verdict }]),
  ]),
);
