/** Graphs for the embedded engine's tests. */
export type Link = readonly [string, number];
type Node = { readonly class_type: string; readonly inputs: Readonly<Record<string, unknown>> };
export type Graph = Readonly<Record<string, Node>>;

export const node = (class_type: string, inputs: Readonly<Record<string, unknown>>): Node => ({ class_type, inputs });

export const empty = (own: Readonly<Record<string, unknown>> = {}): Node =>
  node("EmptyImage", { width: 16, height: 8, batch_size: 1, color: 0x123456, ...own });

export const save = (from: string, filename_prefix = "picture"): Node =>
  node("SaveImage", { images: [from, 0], filename_prefix });

/** Twenty large blurs in a row: tens of seconds of work. */
export function slowGraph(side = 2048): Graph {
  const blurs = Array.from({ length: 20 }, (_, i): [string, Node] => [
    String(i + 2),
    node("ImageBlur", { image: [String(i + 1), 0], blur_radius: 31, sigma: 1 }),
  ]);
  return { "1": empty({ width: side, height: side }), ...Object.fromEntries(blurs), "99": save("21") };
}
