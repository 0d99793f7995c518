/** Python's `heapq` over an array: the array itself is shown by `/queue`, so its order is part of the behaviour. */
export type Order<Item> = (a: Item, b: Item) => boolean;

function siftUp<Item>(heap: Item[], start: number, at: number, less: Order<Item>): void {
  const item = heap[at] as Item;
  let position = at;
  while (position > start) {
    const parentAt = (position - 1) >> 1;
    const parent = heap[parentAt] as Item;
    if (!less(item, parent)) break;
    heap[position] = parent;
    position = parentAt;
  }
  heap[position] = item;
}

function siftDown<Item>(heap: Item[], at: number, less: Order<Item>): void {
  const item = heap[at] as Item;
  let position = at;
  let child = 2 * position + 1;
  while (child < heap.length) {
    const right = child + 1;
    if (right < heap.length && !less(heap[child] as Item, heap[right] as Item)) child = right;
    heap[position] = heap[child] as Item;
    position = child;
    child = 2 * position + 1;
  }
  heap[position] = item;
  siftUp(heap, at, position, less);
}

export function push<Item>(heap: Item[], item: Item, less: Order<Item>): void {
  heap.push(item);
  siftUp(heap, 0, heap.length - 1, less);
}

export function pop<Item>(heap: Item[], less: Order<Item>): Item | undefined {
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return last;
  const first = heap[0] as Item;
  heap[0] = last;
  siftDown(heap, 0, less);
  return first;
}

export function heapify<Item>(heap: Item[], less: Order<Item>): void {
  for (let at = (heap.length >> 1) - 1; at >= 0; at--) siftDown(heap, at, less);
}
