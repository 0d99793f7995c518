/** Every waiting time of the ComfyUI engine in one place, so that a test can shorten them. Milliseconds. */
export interface Timings {
  /** After an event that may be the end, doubled up to the second: what the socket does not say is asked for. */
  readonly poll_first_ms: number;
  readonly poll_most_ms: number;
  /** Between looks at the queue, whose answer repeats every waiting graph. */
  readonly queue_ms: number;
  /** Between looks at the GPU's memory, from as much silence on. */
  readonly gpu_sample_ms: number;
  /** Silence after which a run counts as stalled (contract section 4). */
  readonly stall_ms: number;
  /** For the socket's first connection; a prompt is submitted without it then. */
  readonly socket_ms: number;
  /** Between looks at an idle server. */
  readonly idle_check_ms: number;
  /** Between looks at an idle server's classes and models: 1.6 MB of JSON with ComfyUI 0.33. */
  readonly list_ms: number;
  /** Between tries at a server that is down, doubled up to the second. */
  readonly gate_retry_ms: readonly [first: number, most: number];
  /** For the trial run at the gate, which shows that the server's worker is alive; and for the warm-up. */
  readonly trial_ms: number;
  readonly warm_up_ms: number;
  /** How long a server that is up may fail the gate before it is restarted, where it can be. */
  readonly restart_after_ms: number;
  /** How long a run waits for a server that is ready. */
  readonly ready_ms: number;
  /** For the GPU's memory to come back after the server was told to free it. */
  readonly free_ms: number;
  /** Between the tries at an output whose server does not answer: it may be in its restart. */
  readonly view_retry_ms: readonly number[];
  /** How long a prompt whose answer was lost may be in no queue: the server may still be reading it. */
  readonly lost_submit_ms: number;
  /** Between stops on a server whose stop ends whatever runs. */
  readonly blind_stop_ms: number;
  /** For a stalled run to end after it was told to. */
  readonly last_stop_ms: number;
}

export const TIMINGS: Timings = {
  poll_first_ms: 25,
  poll_most_ms: 1_000,
  queue_ms: 5_000,
  gpu_sample_ms: 10_000,
  stall_ms: 120_000,
  socket_ms: 2_000,
  idle_check_ms: 5_000,
  list_ms: 300_000,
  gate_retry_ms: [500, 10_000],
  trial_ms: 60_000,
  warm_up_ms: 600_000,
  restart_after_ms: 60_000,
  ready_ms: 60_000,
  free_ms: 10_000,
  view_retry_ms: [200, 1_000, 3_000, 6_000],
  lost_submit_ms: 5_000,
  blind_stop_ms: 1_000,
  last_stop_ms: 10_000,
};
