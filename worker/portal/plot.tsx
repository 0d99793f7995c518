import type { Child } from "hono/jsx";

/**
 * Small plots as SVG: no script, colours from the style sheet, the numbers as a table below. The drawing is stretched to the page's
 * width while all text stands beside it in HTML, so that it is as readable on a phone as on a wide screen.
 */

export interface Point {
  /** Below the axis and in the table: a day, a time of day. */
  readonly label: string;
  /** Not negative. Absent where there is nothing to measure: a line has a gap there. */
  readonly value?: number;
  /** What a bar is made of, drawn one above the other; together they are its value. Parts of the same name belong together. */
  readonly parts?: readonly Part[];
}

export interface Part {
  readonly name: string;
  readonly value: number;
}

export interface PlotOptions {
  /** What is shown; no two plots of a page may have the same. */
  readonly title: string;
  /** Of the values, as in "jobs" or "s"; stands at the axis and in the table. */
  readonly unit: string;
  /** The earliest first. */
  readonly points: readonly Point[];
}

/** The drawing's own units from top to bottom; from left to right a unit is a point. */
const HEIGHT = 100;
/** A value that is there is seen, however small it is beside the others. */
const LEAST = 1.5;
/** Of the space of a point a bar takes so much. */
const BAR_WIDTH = 0.8;
/** Colours that the style sheet has. Further parts are drawn in the last one. */
const COLOURS = 6;
const MOST_LABELS = 5;

const number = (value: number): string =>
  value.toLocaleString("en", { maximumFractionDigits: value < 10 ? 2 : value < 100 ? 1 : 0 });

/** For coordinates: two digits are a hundredth of a bar. */
const short = (value: number): string => String(Math.round(value * 100) / 100);

/** The next round number above, so that the axis ends at one. */
function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].find((one) => one * power >= value) ?? 10;
  return step * power;
}

const slug = (title: string): string => `plot-${title.toLowerCase().replace(/[^a-z0-9]+/g, "-")}`;

/** The names of all parts, in the order in which they first appear. */
const namesOf = (points: readonly Point[]): string[] => [
  ...new Set(points.flatMap(({ parts = [] }) => parts.map(({ name }) => name))),
];

const partOf = ({ parts = [] }: Point, name: string): number =>
  parts.reduce((sum, part) => sum + (part.name === name ? part.value : 0), 0);

const colour = (index: number): string => `part-${Math.min(index, COLOURS - 1) + 1}`;

/** First, last and those evenly between: as many as a phone has room for. */
function axisLabels(points: readonly Point[]): string[] {
  const count = points.length >= MOST_LABELS ? MOST_LABELS : Math.min(points.length, 3);
  return Array.from({ length: count }, (_, i) => {
    const at = count === 1 ? 0 : Math.round((i * (points.length - 1)) / (count - 1));
    return points[at]?.label ?? "";
  });
}

/** What somebody hears who does not see the drawing. */
function summary(points: readonly Point[], unit: string): string {
  const measured = points.filter(({ value }) => value !== undefined);
  const [first] = points;
  const last = points.at(-1);
  if (!first || !last || measured.length === 0) return "Nothing was measured.";
  const highest = measured.reduce((best, point) => ((point.value ?? 0) > (best.value ?? 0) ? point : best));
  return `From ${first.label} to ${last.label}. Highest: ${number(highest.value ?? 0)} ${unit} at ${highest.label}. All numbers are in the table below.`;
}

function Numbers({ unit, points, names }: Omit<PlotOptions, "title"> & { names: readonly string[] }) {
  return (
    <details>
      <summary>Numbers</summary>
      <div class="table">
        <table>
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col" class="number">
                {unit}
              </th>
              {names.map((name) => (
                <th scope="col" class="number">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {points.map((point) => (
              <tr>
                <td>{point.label}</td>
                <td class="number">{point.value === undefined ? "–" : number(point.value)}</td>
                {names.map((name) => (
                  <td class="number">{number(partOf(point, name))}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function Plot({ title, unit, points, top, children }: PlotOptions & { top: number; children: Child }) {
  const id = slug(title);
  const names = namesOf(points);
  return (
    <figure class="plot">
      <figcaption>
        {title}
        {title.toLowerCase().split(/\W+/).includes(unit) ? null : <span class="unit"> {unit}</span>}
      </figcaption>
      {names.length === 0 ? null : (
        <ul class="legend">
          {names.map((name, index) => (
            <li class={colour(index)}>{name}</li>
          ))}
        </ul>
      )}
      <div class="frame">
        <div class="scale" aria-hidden="true">
          {(top > 1 || points.some(({ value = 0 }) => !Number.isInteger(value)) ? [top, top / 2, 0] : [top, 0]).map(
            (tick) => (
              <span>{number(tick)}</span>
            ),
          )}
        </div>
        <svg
          viewBox={`0 0 ${Math.max(1, points.length)} ${HEIGHT}`}
          preserveAspectRatio="none"
          role="img"
          aria-labelledby={`${id} ${id}-more`}
        >
          <title id={id}>{title}</title>
          <desc id={`${id}-more`}>{summary(points, unit)}</desc>
          <path class="grid" d={`M0 0H${points.length}M0 ${HEIGHT / 2}H${points.length}`} />
          {children}
          <path class="axis" d={`M0 ${HEIGHT}H${points.length}`} />
        </svg>
        <div class="labels" aria-hidden="true">
          {axisLabels(points).map((label) => (
            <span>{label}</span>
          ))}
        </div>
      </div>
      <Numbers unit={unit} points={points} names={names} />
    </figure>
  );
}

const topOf = (points: readonly Point[]): number => roundUp(Math.max(0, ...points.map(({ value = 0 }) => value)));

/** A bar for each point. One path a part, whatever the number of points: a page of plots stays small. */
export function Bars(options: PlotOptions) {
  const { points } = options;
  const top = topOf(points);
  const names = namesOf(points);
  const heightOf = (value: number): number => (value <= 0 ? 0 : Math.max(LEAST, (value / top) * HEIGHT));
  const below = points.map(() => 0);
  const drawn = (of: (point: Point) => number): string =>
    points
      .map((point, i) => {
        const height = heightOf(of(point));
        if (height === 0) return "";
        const from = HEIGHT - (below[i] ?? 0);
        below[i] = (below[i] ?? 0) + height;
        return `M${short(i + (1 - BAR_WIDTH) / 2)} ${short(from)}v${short(-height)}h${BAR_WIDTH}V${short(from)}z`;
      })
      .join("");
  return (
    <Plot {...options} top={top}>
      {names.length === 0 ? (
        <path class={`mark ${colour(0)}`} d={drawn(({ value = 0 }) => value)} />
      ) : (
        names.map((name, index) => <path class={`mark ${colour(index)}`} d={drawn((point) => partOf(point, name))} />)
      )}
    </Plot>
  );
}

/** A line through the points; it breaks where a value is absent, and a value alone is a dot. */
export function Line(options: PlotOptions) {
  const { points } = options;
  const top = topOf(points);
  const isThere = (i: number): boolean => points[i]?.value !== undefined;
  let line = "";
  let dots = "";
  for (const [i, { value }] of points.entries()) {
    if (value === undefined) continue;
    const at = `${short(i + 0.5)} ${short(HEIGHT - (value / top) * HEIGHT)}`;
    line += isThere(i - 1) ? `L${at}` : `M${at}`;
    // A stroke without length has round ends.
    if (!isThere(i - 1) && !isThere(i + 1)) dots += `M${at}h0`;
  }
  return (
    <Plot {...options} top={top}>
      <path class="line" d={line} />
      <path class="dots" d={dots} />
    </Plot>
  );
}
