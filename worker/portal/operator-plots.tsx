import { type Bucket, type HistoryView, together, waitWithin } from "../fleet/history.ts";
import { Bars, Line, type Point } from "./plot.tsx";

/** What a fleet did over the last hour and the last day. */

/** Five minutes of a day side by side are too thin to see: so many are shown as one. */
const FIVES_A_BAR = 6;

/** Share of the tickets whose longest wait is shown. */
const MOST = 0.95;

const timeOf = (at: number): string => new Date(at).toISOString().slice(11, 16);

const seconds = (ms: number | undefined): { value?: number } =>
  ms === undefined ? {} : { value: Math.round(ms / 10) / 100 };

const throughput = (buckets: readonly Bucket[]): Point[] =>
  buckets.map(({ at, ended, failed }) => ({
    label: timeOf(at),
    value: ended + failed,
    parts: [
      { name: "ended", value: ended },
      { name: "failed", value: failed },
    ],
  }));

const waits = (buckets: readonly Bucket[]): Point[] =>
  buckets.map((bucket) => ({ label: timeOf(bucket.at), ...seconds(waitWithin(bucket, MOST)) }));

function halfHours(day: readonly Bucket[]): Bucket[] {
  const bars: Bucket[] = [];
  for (let from = 0; from < day.length; from += FIVES_A_BAR) bars.push(together(day.slice(from, from + FIVES_A_BAR)));
  return bars;
}

export function Plots({ history }: { history: HistoryView }) {
  const day = halfHours(history.day);
  const { started, ended, failed } = together(history.day);
  if (started + ended + failed === 0)
    return (
      <p class="empty">Nothing ran in the last 24 hours. Executions and waiting times appear here when jobs do.</p>
    );
  return (
    <>
      <p class="hint">
        Times are UTC. Failed: lost with its runner, or ended by a fault of its engine; what fails by its own graph has
        ended. Waits are those of 95 in 100 jobs, from their arrival at the fleet to a seat.
      </p>
      <div class="plots">
        <Bars title="Executions a minute, last hour" unit="executions" points={throughput(history.hour)} />
        <Line title="Wait for a seat, last hour" unit="s" points={waits(history.hour)} />
        <Bars title="Executions in half an hour, last day" unit="executions" points={throughput(day)} />
        <Line title="Wait for a seat, last day" unit="s" points={waits(day)} />
      </div>
    </>
  );
}
