import { expect, it } from "vitest";
import { abilitiesOf } from "../../../gpu-runner/engines/comfyui/version.ts";

const able = (version: string): readonly string[] =>
  Object.entries(abilitiesOf(version)).flatMap(([ability, has]) => (has ? [ability] : []));

const ALL = ["ownPromptId", "targetedInterrupt", "cancel"];

it.each([
  ["0.2.7", 0],
  ["0.3.9", 0],
  ["0.3.44", 0],
  ["0.3.45", 1],
  ["0.3.56", 1],
  ["0.3.57", 2],
  ["0.3.64", 2],
  ["0.25.0", 2],
  ["0.25", 2],
  ["0.25.1", 3],
  ["0.26.0", 3],
  ["0.33.0", 3],
  ["1.0", 3],
  ["10.0.0", 3],
  ["v0.8.0-12-g3cd7b32", 2],
  ["v0.3.40+local.99.9", 0],
])("Version %s has the first %i abilities.", (version, count) => {
  expect(able(version)).toEqual(ALL.slice(0, count));
});

it.each(["unknown", "", "nightly", "7"])("The version %j can't be read, and counts as the newest.", (version) => {
  expect(able(version)).toEqual(ALL);
});
