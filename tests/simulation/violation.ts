/** An invariant of design section 3 does not hold. Ends the schedule. */
export class Violation extends Error {
  readonly invariant: string;

  constructor(invariant: string, detail: string) {
    super(`${invariant}: ${detail}`);
    this.name = "Violation";
    this.invariant = invariant;
  }
}

/** @param detail is read only where the invariant is broken */
export function holds(truth: boolean, invariant: string, detail: () => unknown): asserts truth {
  if (truth) return;
  const said = detail();
  throw new Violation(invariant, typeof said === "string" ? said : JSON.stringify(said));
}
