/** One line each for a human, with time and level. No secret, no prompt, no text of a stranger longer than a line. */
export interface Log {
  info(text: string): void;
  warn(text: string): void;
  error(text: string, cause?: unknown): void;
}

const MAX_LINE = 2000;

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it replaces
const oneLine = (text: string): string => text.replace(/[\u0000-\u001f\u007f]+/g, " ").slice(0, MAX_LINE);

/** The words of anything that was thrown, with the causes beneath it. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? "" : `: ${reasonOf(error.cause)}`;
  return `${error.message || error.name}${cause}`;
}

/** `write` takes finished lines; the runner's go to stderr, so that stdout holds the ready line alone. */
export function createLog(write: (line: string) => void): Log {
  const line = (level: string, text: string) =>
    write(`${new Date().toISOString()} ${level.padEnd(5)} ${oneLine(text)}\n`);
  return {
    info: (text) => line("info", text),
    warn: (text) => line("warn", text),
    error: (text, cause) => line("error", cause === undefined ? text : `${text}: ${reasonOf(cause)}`),
  };
}
