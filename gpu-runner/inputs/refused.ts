/**
 * An input can't be had for a reason that its customer is told. Thrown within this folder only; `createInputs` turns it into a
 * value.
 */
export class Refused extends Error {
  /**
   * Completes the sentence that begins with "The input at example.com". Names no host, address, path or query: URLs carry
   * secrets, and what a name resolves to may be the operator's.
   */
  readonly predicate: string;

  constructor(predicate: string, options?: ErrorOptions) {
    super(predicate, options);
    this.predicate = predicate;
  }
}
