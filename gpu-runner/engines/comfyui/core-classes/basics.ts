import type { ModuleReview } from "./review.ts";

/** Text, numbers, logic and previews of values. */
export const basics: readonly ModuleReview[] = [
  {
    module: "nodes_primitive",
    open: ["PrimitiveBoolean", "PrimitiveFloat", "PrimitiveInt", "PrimitiveString", "PrimitiveStringMultiline"],
  },
  { module: "nodes_logic", open: ["ComfyAndNode", "ComfyNotNode", "ComfyOrNode", "ComfySwitchNode", "CustomCombo"] },
  { module: "nodes_math", open: [], closed: { ComfyMathExpression: "evaluates" } },
  {
    module: "nodes_string",
    open: [
      "CaseConverter",
      "ConvertArrayToString",
      "ConvertDictionaryToString",
      "JsonExtractString",
      "StringCompare",
      "StringConcatenate",
      "StringContains",
      "StringLength",
      "StringReplace",
      "StringSubstring",
      "StringTrim",
    ],
    closed: {
      RegexExtract: "stops_the_server",
      RegexMatch: "stops_the_server",
      RegexReplace: "stops_the_server",
      StringFormat: "evaluates",
    },
  },
  { module: "nodes_text", open: ["SaveText"] },
  { module: "nodes_json_prompt", open: ["BuildJsonPromptIdeogram"] },
  { module: "nodes_number_convert", open: ["ComfyNumberConvert"] },
  { module: "nodes_curve", open: ["ImageHistogram"], closed: { CurveEditor: "names_output_files" } },
  { module: "nodes_color", open: ["ColorToRGBInt"] },
  { module: "nodes_seed", open: ["SeedNode"] },
  { module: "nodes_resolution", open: ["ResolutionSelector"] },
  { module: "nodes_toolkit", open: ["CreateList"] },
  { module: "nodes_preview_any", open: ["PreviewAny"] },
  { module: "nodes_nop", open: ["wanBlockSwap"] },
  { module: "nodes_textgen", open: ["TextGenerate", "TextGenerateLTX2Prompt"] },
];
