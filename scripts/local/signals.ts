/** Ends a command cleanly on Ctrl-C or SIGTERM; a second Ctrl-C ends it at once. */
export function onStopSignal(stop: (signal: NodeJS.Signals) => Promise<void>): void {
  let stopping = false;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
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
