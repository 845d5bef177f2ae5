"""Parts of every long-running command: child processes, log, text output, signals, metrics port, watchdog."""
