const STOP_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Ends a command cleanly on Ctrl-C or SIGTERM; a second Ctrl-C ends it at once. */
export function onStopSignal(stop: (signal: NodeJS.Signals) => Promise<void>): void {
  let stopping = false;
  for (const signal of STOP_SIGNALS) {
    process.on(signal, () => {
      if (stopping) process.exit(130);
      stopping = true;
      void stop(signal).then(
        () => process.exit(0),
        () => process.exit(1),
      );
    });
  }
}

/**
 * Makes something that would end the process at a signal of its own accord, as Miniflare does. Where the process stops in order,
 * that stays its own affair: what `make` has added is taken away again.
 */
export function keepingStopSignals<T>(make: () => T): T {
  const before = STOP_SIGNALS.map((signal) => ({ signal, own: process.listeners(signal) }));
  const made = make();
  for (const { signal, own } of before) {
    if (own.length === 0) continue;
    for (const listener of process.listeners(signal)) if (!own.includes(listener)) process.off(signal, listener);
  }
  return made;
}
