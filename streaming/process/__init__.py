"""Parts that long-running commands share: child processes, log, text output, signals, metrics port, watchdog."""
