/**
 * What the schema of a class does not tell of the files that it reads and writes, by class. `/object_info` marks inputs that take
 * an uploaded file: `image_upload`, `animated_image_upload`, `audio_upload`, `video_upload` or `file_upload` is true in the
 * input's settings, be it a list of choices or (Painter) a text. It has no mark for the names of outputs.
 */

/** The input by which every core class that saves is told the name of its files, below the server's output folder. */
const OUTPUT_NAME = "filename_prefix";

/** Classes that spell it otherwise. */
const OTHER_OUTPUT_NAMES: Readonly<Record<string, string>> = { SaveLoRA: "prefix" };

/** Whether an input holds the name under which a class saves its files. */
export function isOutputName(class_type: string, field: string): boolean {
  return (
    field === OUTPUT_NAME || (Object.hasOwn(OTHER_OUTPUT_NAMES, class_type) && field === OTHER_OUTPUT_NAMES[class_type])
  );
}

/** Well-known classes of custom packs that list the files of the input folder without a mark. Core has none that is open. */
const UPLOADS_WITHOUT_MARK: ReadonlyMap<string, "audio" | "video"> = new Map([
  ["VHS_LoadVideo\0video", "video"],
  ["VHS_LoadVideoFFmpeg\0video", "video"],
  ["VHS_LoadAudioUpload\0audio", "audio"],
]);

/** What an input takes that is an uploaded file although its schema does not say so. */
export function uploadWithoutMark(class_type: string, field: string): "audio" | "video" | undefined {
  return UPLOADS_WITHOUT_MARK.get(`${class_type}\0${field}`);
}

/** What a graph may put into an input, beyond what the server itself checks. */
export interface InputGuard {
  /** No link: the server checks a choice against its list only where it stands in the graph, a link carries anything past it. */
  readonly literal: true;
  /** Characters. */
  readonly longest?: number;
}

const LITERAL: InputGuard = { literal: true };

/**
 * Inputs of open classes that become part of a path before ComfyUI 0.31, although they look like choices, and one that is read by
 * a pattern of quadratic time: 4,000 characters take 0.25 s, a million take hours in which the server answers nobody.
 */
const GUARDS: ReadonlyMap<string, InputGuard> = new Map([
  ["DiffusersLoader\0model_path", LITERAL],
  ["SaveText\0format", LITERAL],
  ["SplatToFile3D\0format", LITERAL],
  ["SaveAudio\0format", LITERAL],
  ["SaveAudioMP3\0format", LITERAL],
  ["SaveAudioOpus\0format", LITERAL],
  ["SaveAudioAdvanced\0format", LITERAL],
  ["SaveImageAdvanced\0format", LITERAL],
  ["SaveVideo\0format", LITERAL],
  ["SaveVideo\0codec", LITERAL],
  ["SaveWEBM\0codec", LITERAL],
  ["ManualSigmas\0sigmas", { literal: true, longest: 4_000 }],
]);

/** What to check before a value is sent to the server; undefined where the server's own checks are enough. */
export function guardOf(class_type: string, field: string): InputGuard | undefined {
  return GUARDS.get(`${class_type}\0${field}`);
}
