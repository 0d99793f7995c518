/** Every waiting time of the runner in one place, so that a test can shorten them. Milliseconds. */
export interface Timings {
  /** Before an execution's first progress report: what ends sooner needs none. */
  readonly progress_first_ms: number;
  /** Between progress reports while the engine has no news: each asks whether the fence still holds. */
  readonly progress_idle_ms: number;
  /** After a progress report without an answer, doubled each time up to the second. */
  readonly progress_retry_ms: readonly [first: number, most: number];
  /** Between repeats of an end report, doubled each time up to the second. */
  readonly end_retry_ms: readonly [first: number, most: number];
  /** Between the tries of one upload: five tries over about half a minute, which outlasts a deploy and a throttled store. */
  readonly upload_retry_ms: readonly number[];
  /** After a beat without an answer: several fit into the 15 s of silence after which a runner counts as lost. */
  readonly beat_retry_ms: number;
  /** For an answer of a few hundred bytes; two tries at a beat fit into 15 s of silence. */
  readonly answer_ms: number;
  /** For enrolment, during which the edge calls back. */
  readonly enrol_ms: number;
  /** For the end reports of what a drain handed back; a beat without them says the same, later. */
  readonly hand_back_ms: number;
}

export const TIMINGS: Timings = {
  progress_first_ms: 1_000,
  progress_idle_ms: 30_000,
  progress_retry_ms: [1_000, 15_000],
  end_retry_ms: [200, 10_000],
  upload_retry_ms: [1_000, 3_000, 8_000, 16_000],
  beat_retry_ms: 1_000,
  answer_ms: 5_000,
  enrol_ms: 30_000,
  hand_back_ms: 10_000,
};
