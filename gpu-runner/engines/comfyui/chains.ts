import { isLink, type Prompt } from "../../../schemas/prompt.ts";

/** The nodes from which an output is reached backwards. Iterative: graphs have up to 5,000 nodes in a chain. */
export function neededBy(outputs: Iterable<string>, graph: Prompt): ReadonlySet<string> {
  const needed = new Set<string>(outputs);
  const open = [...needed];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    for (const input of graph.get(id)?.inputs.values() ?? []) {
      if (!isLink(input) || needed.has(input[0])) continue;
      needed.add(input[0]);
      open.push(input[0]);
    }
  }
  return needed;
}

/**
 * ComfyUI follows links by recursion: chains of more than about 970 nodes are refused, and where a link is not validated they end
 * its worker instead.
 */
export const LONGEST_CHAIN = 900;

/** The number of nodes in the longest chain of links. The graph has no cycle. */
export function longestChain(ids: Iterable<string>, graph: Prompt): number {
  const lengths = new Map<string, number>();
  let longest = 0;
  for (const root of ids) {
    const open = [root];
    for (let id = open.at(-1); id !== undefined; id = open.at(-1)) {
      let length = 1;
      const waiting = open.length;
      for (const input of lengths.has(id) ? [] : (graph.get(id)?.inputs.values() ?? [])) {
        if (!isLink(input)) continue;
        const before = lengths.get(input[0]);
        if (before === undefined) open.push(input[0]);
        else length = Math.max(length, before + 1);
      }
      if (open.length > waiting) continue;
      open.pop();
      if (lengths.has(id)) continue;
      lengths.set(id, length);
      longest = Math.max(longest, length);
    }
  }
  return longest;
}
