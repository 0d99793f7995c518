/** What differs between versions of ComfyUI; by default everything is as in 0.33.0. */
export interface Behaviour {
  /** What becomes of a client's `prompt_id`: ignored, taken as any string, or refused unless a canonical UUID. */
  readonly promptIds: "ignored" | "any" | "uuid";
  readonly progressState: boolean;
  /** `/features`, the message `feature_flags` and previews with metadata. */
  readonly features: boolean;
  readonly partialTargets: boolean;
  readonly targetedInterrupt: boolean;
  readonly createTime: boolean;
  readonly jobs: boolean;
  readonly cancelledStatus: boolean;
  readonly cancel: boolean;
  readonly missingNodeType: boolean;
  readonly cycleCheck: boolean;
  readonly throttledProgress: boolean;
}

const numbers = (version: string): readonly number[] => version.split(".").map(Number);

/** Whether the version came after the other one. */
function after(version: string, other: string): boolean {
  const [a, b] = [numbers(version), numbers(other)];
  for (let i = 0; i < 3; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return false;
}

export function behaviourOf(version: string): Behaviour {
  const since = (other: string) => after(version, other);
  return {
    promptIds: since("0.24.0") ? "uuid" : since("0.3.44") ? "any" : "ignored",
    progressState: since("0.3.44"),
    features: since("0.3.44"),
    partialTargets: since("0.3.47"),
    targetedInterrupt: since("0.3.56"),
    createTime: since("0.3.68"),
    jobs: since("0.5.1"),
    throttledProgress: since("0.6.0"),
    cancelledStatus: since("0.8.2"),
    missingNodeType: since("0.11.1"),
    cycleCheck: since("0.19.3"),
    cancel: since("0.25.0"),
  };
}
