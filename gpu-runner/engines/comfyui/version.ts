/** What a server of some version can do. Where the version can't be read, the newest is assumed. */
export interface Abilities {
  /** `POST /prompt` takes the client's own `prompt_id`. */
  readonly ownPromptId: boolean;
  /** `POST /interrupt` looks at `prompt_id`; without that it stops whatever runs. */
  readonly targetedInterrupt: boolean;
  /** `POST /api/jobs/{id}/cancel` exists, which takes a waiting prompt from the queue or stops a running one in one step. */
  readonly cancel: boolean;
}

/** The first three numbers of a version such as `0.33.0` or `v0.8.0-12-g3cd7b32`. */
function numbersOf(version: string): readonly [number, number, number] | undefined {
  const match = /(\d+)\.(\d+)(?:\.(\d+))?/.exec(version);
  return match ? [Number(match[1]), Number(match[2]), Number(match[3] ?? 0)] : undefined;
}

const isAfter = (version: readonly number[], bound: readonly [number, number, number]): boolean => {
  const [difference] = bound.map((number, place) => (version[place] ?? 0) - number).filter((one) => one !== 0);
  return (difference ?? 0) > 0;
};

export function abilitiesOf(version: string): Abilities {
  const numbers = numbersOf(version);
  const after = (...bound: [number, number, number]): boolean => numbers === undefined || isAfter(numbers, bound);
  return { ownPromptId: after(0, 3, 44), targetedInterrupt: after(0, 3, 56), cancel: after(0, 25, 0) };
}
