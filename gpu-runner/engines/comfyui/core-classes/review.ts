/**
 * How the core classes were judged: by what a stranger's graph could do through them on a server that works for many accounts.
 * docs/comfyui-classes.md tells how far ComfyUI's source was read.
 */
export interface ModuleReview {
  /** The file of ComfyUI that defines the classes, as its `python_module` ends: `nodes`, `nodes_mask`. */
  readonly module: string;
  readonly open: readonly string[];
  readonly closed?: Readonly<Record<string, ReviewReason>>;
}

/** Why a class that was read stays closed. */
export type ReviewReason =
  | "reads_shared_files"
  | "saves_by_path"
  | "names_output_files"
  | "writes_models"
  | "trains"
  | "evaluates"
  | "stops_the_server"
  | "compiles"
  | "devices";

/** Why a class that is no custom pack's is closed. */
export type ClosingReason = ReviewReason | "paid_service" | "core_not_allowed" | "not_reviewed";

/** What operators read about a reason. `opened_by` is an entry of `COMFYUI_ALLOW`; absent where each class is opened by its name. */
export interface ClosingText {
  readonly group: string;
  readonly sentence: string;
  readonly opened_by?: string;
}

export const CLOSING_REASONS: Readonly<Record<ClosingReason, ClosingText>> = {
  core_not_allowed: {
    group: "core",
    sentence: "ComfyUI's own classes are not allowed on this runner.",
    opened_by: "core",
  },
  reads_shared_files: {
    group: "core: reads shared files",
    sentence: "Reads files of the server by a name in the graph, where other accounts' files may lie.",
  },
  saves_by_path: {
    group: "core: saves by path",
    sentence: "Writes where the graph says, or outside the place of its own job.",
  },
  names_output_files: {
    group: "core: names output files",
    sentence: "Answers with file names that the graph made up, which could be another account's.",
  },
  writes_models: {
    group: "core: writes models",
    sentence: "Writes model files of many gigabytes to the server's disk.",
  },
  trains: {
    group: "core: trains",
    sentence: "Trains a model: it holds the GPU for long and keeps state in the server.",
  },
  evaluates: {
    group: "core: evaluates code",
    sentence: "Evaluates an expression, a format or a program from the graph, which can reach the server itself.",
  },
  stops_the_server: {
    group: "core: can stop the server",
    sentence: "One small input can hold up the whole server, and no cancelling reaches it.",
  },
  compiles: {
    group: "core: compiles",
    sentence: "Starts a compiler on the server and changes its settings for the jobs that follow.",
  },
  devices: {
    group: "core: chooses devices",
    sentence: "Puts models on devices that the graph chooses, past what the operator set, and copies them there.",
  },
  paid_service: {
    group: "core: calls a paid service",
    sentence: "Sends the job's data to an outside service, at the cost of the operator's account there.",
    opened_by: "api",
  },
  not_reviewed: {
    group: "core: not reviewed",
    sentence: "This version of ComfyUI has classes that nobody has reviewed for a shared server yet.",
  },
};
