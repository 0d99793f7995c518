/** The runner can't start, and its operator can change that. The message is one line that says how. */
export class StartError extends Error {
  override readonly name = "StartError";
  /** 2: what it was started with is wrong or missing; 1: anything else. */
  readonly exitCode: 1 | 2;

  constructor(message: string, { exitCode = 1, cause }: { exitCode?: 1 | 2; cause?: unknown } = {}) {
    super(message, { cause });
    this.exitCode = exitCode;
  }
}
