import type { ClassRegistry } from "./class-registry.ts";
import { type GraphNode, isLink } from "./graph.ts";
import type { NodeClass, NodeContext, NodeResult, Values } from "./node-class.ts";
import { PythonError } from "./python-error.ts";
import type { Json } from "./python-json.ts";
import { Blocked, type Value } from "./values.ts";

export type Ui = Readonly<Record<string, Json[]>>;

/** The values of each input: more than one where a list comes in. */
export type InputLists = Readonly<Record<string, readonly Value[]>>;

export interface Expansion {
  readonly expand: NonNullable<NodeResult["expand"]>;
  readonly links: NonNullable<NodeResult["links"]>;
}

export interface Outcome {
  readonly outputs: readonly (readonly Value[])[];
  readonly ui: Ui | undefined;
  readonly expansion?: Expansion;
}

/** Resolves links; constants of names that the class does not know are left out, links to such names are not. */
export function inputLists(
  classes: ClassRegistry,
  node: GraphNode,
  valuesOf: (id: string, slot: number) => readonly Value[],
): InputLists {
  const known = classes.inputs(node.class_type);
  const lists: Record<string, readonly Value[]> = {};
  for (const [name, value] of Object.entries(node.inputs)) {
    if (isLink(value)) lists[name] = valuesOf(...value);
    else if (name in known) lists[name] = [value];
  }
  return lists;
}

/** The hidden inputs show in `current_inputs` of a failure, after the others. */
export function withHidden(
  classes: ClassRegistry,
  node: GraphNode,
  lists: InputLists,
  context: NodeContext,
): InputLists {
  const hidden = classes.info(node.class_type).input.hidden ?? {};
  return {
    ...lists,
    ...("prompt" in hidden ? { prompt: [context.prompt] } : {}),
    ...("extra_pnginfo" in hidden ? { extra_pnginfo: [context.extra_pnginfo] } : {}),
  };
}

function refuseUnknown(classes: ClassRegistry, name: string, method: string, values: Values): void {
  const known = classes.inputs(name);
  const unknown = Object.keys(values).find((input) => !(input in known));
  if (unknown === undefined) return;
  throw new PythonError("TypeError", `${name}.${method}() got an unexpected keyword argument '${unknown}'`);
}

function mergedUi(uis: readonly Ui[]): Ui | undefined {
  const merged: Record<string, Json[]> = {};
  for (const ui of uis) {
    for (const [kind, entries] of Object.entries(ui)) merged[kind] = [...(merged[kind] ?? []), ...entries];
  }
  return Object.keys(merged).length === 0 ? undefined : merged;
}

export interface Run {
  readonly classes: ClassRegistry;
  readonly node: GraphNode;
  readonly lists: InputLists;
  readonly context: NodeContext;
  /** Looked at before each call; throws Interrupted. */
  checkInterrupt(): void;
  /** A blocker with a message came in. */
  blocked(message: string): void;
}

async function callOnce(run: Run, nodeClass: NodeClass, values: Values): Promise<NodeResult> {
  const { class_type } = run.node;
  const slots = run.classes.info(class_type).output.length;
  const blocker = Object.values(values).find((value) => value instanceof Blocked);
  if (blocker !== undefined) {
    if (blocker.message !== null) run.blocked(blocker.message);
    return { outputs: new Array<Value>(slots).fill(new Blocked(null)) };
  }
  run.checkInterrupt();
  refuseUnknown(run.classes, class_type, nodeClass.method ?? "run", values);
  return nodeClass.run(values, run.context);
}

/** Runs a node once for each entry of its longest input list; shorter lists go on with their last entry. */
export async function runNode(run: Run): Promise<Outcome> {
  const { classes, node, lists } = run;
  const nodeClass = classes.get(node.class_type);
  const { output_is_list, output } = classes.info(node.class_type);
  const times = Math.max(1, ...Object.values(lists).map((list) => list.length));
  const results: NodeResult[] = [];
  for (let time = 0; time < times; time++) {
    const entries = Object.entries(lists).map(([name, list]) => [name, list[Math.min(time, list.length - 1)] ?? null]);
    results.push(await callOnce(run, nodeClass, Object.fromEntries(entries) as Values));
  }
  const expanding = results.find(({ expand }) => expand !== undefined);
  if (expanding?.expand !== undefined) {
    return { outputs: [], ui: undefined, expansion: { expand: expanding.expand, links: expanding.links ?? [] } };
  }
  const outputs = output.map((_, slot) =>
    results.flatMap(({ outputs = [] }): readonly Value[] => {
      const value = outputs[slot] ?? null;
      return output_is_list[slot] === true && Array.isArray(value) ? (value as readonly Value[]) : [value as Value];
    }),
  );
  return { outputs, ui: mergedUi(results.map(({ ui = {} }) => ui)) };
}
