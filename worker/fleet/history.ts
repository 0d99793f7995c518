import * as v from "valibot";

/**
 * What a fleet did lately: executions and how long tickets waited, by the minute for an hour and by five minutes for a day. Pure:
 * (history, event, now), changed in place. Memory; now and then it is stored as one value.
 */

/** Upper ends of the waits that are counted together; longer ones are counted last. */
export const WAIT_EDGES_MS = [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000] as const;

const Count = v.pipe(v.number(), v.integer(), v.minValue(0));

export const Bucket = v.object({
  /** When it begins, epoch milliseconds. */
  at: Count,
  /** Seats given to tickets. An execution that its runner refuses counts again with its next seat. */
  started: Count,
  /** Seats given back after an execution, however its job ended; cancelled ones too. */
  ended: Count,
  /** Executions that a runner lost, or that ended by a fault of its engine. Not among the ended ones. */
  failed: Count,
  /** From the tickets' arrival here to their seats, of the started ones: sum, longest, and how many up to each edge. */
  wait_ms: Count,
  wait_max_ms: Count,
  waits: v.pipe(v.array(Count), v.length(WAIT_EDGES_MS.length + 1)),
});
export type Bucket = v.InferOutput<typeof Bucket>;

export type FleetEvent =
  | { readonly kind: "started"; readonly wait_ms: number }
  | { readonly kind: "ended" }
  | { readonly kind: "failed" };

const MINUTES = { width_ms: 60_000, count: 60 } as const;
const FIVES = { width_ms: 300_000, count: 288 } as const;
type Span = typeof MINUTES | typeof FIVES;

/** Buckets by their place in a ring: the present overwrites what is a whole turn old, whatever the clock has done between. */
type Ring = Map<number, Bucket>;

export interface FleetHistory {
  readonly minutes: Ring;
  readonly fives: Ring;
  /** Something has happened since it was last stored. */
  unwritten: boolean;
}

/** As it is stored and shown: the earliest first. */
export const StoredHistory = v.object({
  written_at: Count,
  minutes: v.array(Bucket),
  fives: v.array(Bucket),
});
export type StoredHistory = v.InferOutput<typeof StoredHistory>;

export interface HistoryView {
  /** 60 minutes and 288 times five minutes; the last one of each is under way. */
  readonly hour: readonly Bucket[];
  readonly day: readonly Bucket[];
}

const emptyBucket = (at: number): Bucket => ({
  at,
  started: 0,
  ended: 0,
  failed: 0,
  wait_ms: 0,
  wait_max_ms: 0,
  waits: Array.from({ length: WAIT_EDGES_MS.length + 1 }, () => 0),
});

export const emptyHistory = (): FleetHistory => ({ minutes: new Map(), fives: new Map(), unwritten: false });

const placeOf = (at: number, { width_ms, count }: Span): number => (at / width_ms) % count;

function bucketAt(ring: Ring, span: Span, now: number): Bucket {
  const at = Math.floor(now / span.width_ms) * span.width_ms;
  const place = placeOf(at, span);
  const known = ring.get(place);
  if (known?.at === at) return known;
  const fresh = emptyBucket(at);
  ring.set(place, fresh);
  return fresh;
}

function count(bucket: Bucket, event: FleetEvent): void {
  bucket[event.kind]++;
  if (event.kind !== "started") return;
  const wait_ms = Math.max(0, Math.round(event.wait_ms));
  const place = WAIT_EDGES_MS.findIndex((edge) => wait_ms <= edge);
  const edge = place < 0 ? WAIT_EDGES_MS.length : place;
  bucket.waits[edge] = (bucket.waits[edge] ?? 0) + 1;
  bucket.wait_ms += wait_ms;
  bucket.wait_max_ms = Math.max(bucket.wait_max_ms, wait_ms);
}

export function record(history: FleetHistory, event: FleetEvent, now: number): void {
  count(bucketAt(history.minutes, MINUTES, now), event);
  count(bucketAt(history.fives, FIVES, now), event);
  history.unwritten = true;
}

/** All buckets of a span up to now, empty ones included. What a wrong clock has put elsewhere is left out. */
function spread(ring: Ring, span: Span, now: number): Bucket[] {
  const last = Math.floor(now / span.width_ms) * span.width_ms;
  return Array.from({ length: span.count }, (_, i) => {
    const at = last - (span.count - 1 - i) * span.width_ms;
    const known = ring.get(placeOf(at, span));
    return known?.at === at ? known : emptyBucket(at);
  });
}

export const viewHistory = ({ minutes, fives }: FleetHistory, now: number): HistoryView => ({
  hour: spread(minutes, MINUTES, now),
  day: spread(fives, FIVES, now),
});

const isUsed = ({ started, ended, failed }: Bucket): boolean => started + ended + failed > 0;

/** What is to be stored; the caller does so. */
export function takeHistory(history: FleetHistory, now: number): StoredHistory {
  history.unwritten = false;
  const { hour, day } = viewHistory(history, now);
  return { written_at: now, minutes: hour.filter(isUsed), fives: day.filter(isUsed) };
}

/** What was stored; an empty history where that is absent or of another shape. */
export function readHistory(stored: unknown): FleetHistory & { readonly written_at?: number } {
  const parsed = v.safeParse(StoredHistory, stored);
  const history = emptyHistory();
  if (!parsed.success) return history;
  const { minutes, fives, written_at } = parsed.output;
  for (const bucket of minutes) history.minutes.set(placeOf(bucket.at, MINUTES), bucket);
  for (const bucket of fives) history.fives.set(placeOf(bucket.at, FIVES), bucket);
  return { ...history, written_at };
}

/** Several buckets as one that begins with the first of them. */
export function together(buckets: readonly Bucket[]): Bucket {
  const sum = emptyBucket(buckets[0]?.at ?? 0);
  for (const bucket of buckets) {
    sum.started += bucket.started;
    sum.ended += bucket.ended;
    sum.failed += bucket.failed;
    sum.wait_ms += bucket.wait_ms;
    sum.wait_max_ms = Math.max(sum.wait_max_ms, bucket.wait_max_ms);
    sum.waits = sum.waits.map((waits, i) => waits + (bucket.waits[i] ?? 0));
  }
  return sum;
}

/**
 * How long that share of the tickets waited at most, by the edges that are counted; undefined where none got a seat.
 * @param share 0..1
 */
export function waitWithin({ started, waits, wait_max_ms }: Bucket, share: number): number | undefined {
  let left = Math.ceil(started * share);
  if (left === 0) return undefined;
  for (const [i, edge] of WAIT_EDGES_MS.entries()) {
    left -= waits[i] ?? 0;
    if (left <= 0) return Math.min(edge, wait_max_ms);
  }
  return wait_max_ms;
}
