import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Message, NodeState } from "../../../gpu-runner/engines/comfyui/messages.ts";
import { RunProgress } from "../../../gpu-runner/engines/comfyui/progress.ts";

const CLASSES = new Map([
  ["1", "Load"],
  ["2", "Sample"],
  ["3", "Decode"],
  ["4", "Save"],
]);
const p = { prompt_id: "p" };
const state = (id: string, finished: boolean, value = finished ? 1 : 0, max = 1, display = id): NodeState => ({
  id,
  display,
  finished,
  value,
  max,
});
const states = (...nodes: readonly NodeState[]): Message => ({ type: "state", ...p, nodes });
const entering = (node: string, display = node): Message => ({ type: "executing", ...p, node, display });
const step = (node: string, value: number, max: number): Message => ({ type: "step", ...p, node, value, max });

const after = (...messages: readonly Message[]) => {
  const progress = new RunProgress(CLASSES);
  return messages.map((message) => progress.after(message)).at(-1);
};

describe("Progress", () => {
  it("begins at nothing, and counts what was cached as done", () => {
    expect(after({ type: "started", ...p })).toEqual({ value: 0, nodes_done: 0, nodes_total: 4 });
    expect(after({ type: "cached", ...p, nodes: ["1", "2", "elsewhere"] })).toMatchObject({
      value: 0.5,
      nodes_done: 2,
    });
  });

  it("is made of finished nodes and of the share of the one at work", () => {
    expect(after(states(state("1", true), state("2", false, 5, 20)))).toEqual({
      value: (1 + 5 / 20) / 4,
      nodes_done: 1,
      nodes_total: 4,
      node_id: "2",
      node_class: "Sample",
      step: 5,
      steps: 20,
    });
  });

  it("ends at one when all nodes are finished", () => {
    expect(after(states(...["1", "2", "3", "4"].map((id) => state(id, true))))).toMatchObject({
      value: 1,
      nodes_done: 4,
    });
  });

  it("on a server that tells no states, counts a node as done when the next begins", () => {
    const told = after(entering("1"), entering("2"), step("2", 1, 2), entering("3"));
    expect(told).toEqual({ value: 0.5, nodes_done: 2, nodes_total: 4, node_id: "3", node_class: "Decode" });
  });

  it("does not count a node as done that only made room for another, where states are told", () => {
    expect(after(states(state("1", false)), entering("2"), entering("1"))).toMatchObject({
      nodes_done: 0,
      node_id: "1",
    });
  });

  it("of a sub-graph's node names the node of the workflow", () => {
    expect(after(states(state("2.0.7", false, 0, 1, "2")))).toMatchObject({ node_id: "2", nodes_done: 0 });
    expect(after(entering("2.0.7", "2"))).toMatchObject({ node_id: "2" });
    expect(after(states(state("2.0.7", true, 1, 1, "2")))).toMatchObject({ nodes_done: 0 });
  });

  it("has no steps where a node has one, and loses them with the next node", () => {
    expect(after(step("2", 1, 1))).not.toHaveProperty("steps");
    expect(after(step("2", 1, 9), entering("3"))).not.toHaveProperty("step");
  });

  it("says nothing of messages that are of no progress", () => {
    expect(after({ type: "other", ...p })).toBeUndefined();
    expect(after({ type: "ending", ...p })).toBeUndefined();
  });

  it("never falls, never leaves 0 to 1, and names no node that the graph doesn't have", () => {
    const id = fc.constantFrom("1", "2", "3", "4", "2.0.1", "9", "__proto__");
    const number = fc.oneof(fc.integer({ min: -5, max: 30 }), fc.double({ noNaN: true, noDefaultInfinity: true }));
    const message: fc.Arbitrary<Message> = fc.oneof(
      id.map((node) => entering(node)),
      fc.tuple(id, number, number).map(([node, value, max]) => step(node, value, max)),
      fc.array(id).map((nodes): Message => ({ type: "cached", ...p, nodes })),
      fc.array(fc.tuple(id, fc.boolean(), number, number, id)).map((all) => states(...all.map((one) => state(...one)))),
    );
    fc.assert(
      fc.property(fc.array(message, { maxLength: 30 }), (messages) => {
        const progress = new RunProgress(CLASSES);
        let before = 0;
        for (const one of messages) {
          const told = progress.after(one);
          expect(told?.value).toBeGreaterThanOrEqual(before);
          before = told?.value ?? before;
          expect(before).toBeLessThanOrEqual(1);
          if (told?.node_id !== undefined) expect(CLASSES.get(told.node_id)).toBe(told.node_class);
          if (told?.step !== undefined) expect(told.step).toBeLessThanOrEqual(told.steps ?? -1);
          expect(told?.nodes_done).toBeLessThanOrEqual(4);
        }
      }),
    );
  });
});
