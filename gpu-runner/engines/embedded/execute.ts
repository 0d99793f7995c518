import type { EngineFailure, EngineProgress } from "../../engine.ts";
import { readGraph, refuse } from "../graph.ts";
import { type InputFiles, inputFileProblem } from "./input-files.ts";
import type { RunReport, RunRequest } from "./messages.ts";
import { NODE_FUNCTIONS } from "./node-functions.ts";
import { NodeFailure, NodeInputs } from "./node-run.ts";
import { OutputFolder } from "./output-folder.ts";
import { OutputNames } from "./output-names.ts";
import { PixelBudget, PixelBudgetExceeded } from "./pixel-budget.ts";
import { type Plan, type PlannedNode, planRun } from "./plan.ts";
import { Results } from "./results.ts";

/** Between two reports from within a node: enough for a moving bar, few enough for a batch of thousands. */
const STEP_INTERVAL_MS = 50;

type Tell = (progress: EngineProgress) => void;
type Failed = { readonly error: EngineFailure; readonly reason?: string };

async function missingInput(plan: Plan, files: InputFiles): Promise<EngineFailure | undefined> {
  for (const { id, className, values } of plan) {
    if (className !== "LoadImage") continue;
    const message = await inputFileProblem(files, String(values.get("image")));
    if (message)
      return refuse(message, new Map([[id, [{ field: "image", reason: "input_not_found", message }]]])).error;
  }
  return undefined;
}

function failureOf(fault: unknown, { id, className }: PlannedNode): Failed {
  if (fault instanceof NodeFailure) return { error: { code: fault.code, message: fault.message, node_id: id } };
  if (fault instanceof PixelBudgetExceeded) {
    return { error: { code: "out_of_memory", message: fault.message, node_id: id } };
  }
  const reason = fault instanceof Error ? (fault.stack ?? fault.message) : String(fault);
  if (fault instanceof RangeError && fault.message.includes("allocation failed")) {
    return {
      error: { code: "out_of_memory", message: `There is no memory left for ${className}.`, node_id: id },
      reason,
    };
  }
  return { error: { code: "execution_failed", message: `${className} failed.`, node_id: id }, reason };
}

const inputsOf = ({ inputs, fetched = [] }: RunRequest): InputFiles => ({ folder: inputs, fetched: new Map(fetched) });

async function executePlan(plan: Plan, request: RunRequest, tell: Tell): Promise<OutputFolder | Failed> {
  const budget = new PixelBudget(request.maxPixels);
  const results = new Results(plan, budget);
  const folder = new OutputFolder(request.scratch, new OutputNames(new Date()));
  const files = inputsOf(request);
  const previewsOnly = !plan.some(({ className }) => className === "SaveImage");
  for (const [done, node] of plan.entries()) {
    const about = { node_id: node.id, node_class: node.className, nodes_done: done, nodes_total: plan.length };
    tell({ value: done / plan.length, ...about });
    let told = performance.now();
    const step = (made: number, total: number): void => {
      const now = performance.now();
      if (total === 1 || now - told < STEP_INTERVAL_MS) return;
      told = now;
      tell({ value: (done + made / total) / plan.length, ...about, step: made, steps: total });
    };
    const outputs = node.className === "PreviewImage" && !previewsOnly ? undefined : folder;
    const context = { nodeId: node.id, budget, inputs: files, outputs, step };
    try {
      const inputs = new NodeInputs(node.values, results.of(node));
      results.finish(node, await NODE_FUNCTIONS[node.className](inputs, context));
    } catch (fault) {
      return failureOf(fault, node);
    }
  }
  tell({ value: 1, nodes_done: plan.length, nodes_total: plan.length });
  return folder;
}

/** Judges and executes one graph. Everything that a graph can bring about is a value; it rejects for faults of the host only. */
export async function execute(request: RunRequest, tell: Tell): Promise<RunReport> {
  const start = performance.now();
  const elapsed = (): number => performance.now() - start;
  const failed = (failure: Failed): RunReport => ({ ok: false, ...failure, execution_ms: elapsed() });
  const read = readGraph(request.prompt);
  if (!read.ok) return failed(read);
  const planned = planRun(read.graph);
  if (!planned.ok) return failed(planned);
  const missing = await missingInput(planned.plan, inputsOf(request));
  if (missing) return failed({ error: missing });
  const ended = await executePlan(planned.plan, request, tell);
  if (!(ended instanceof OutputFolder)) return failed(ended);
  return { ok: true, files: ended.files, execution_ms: elapsed() };
}
