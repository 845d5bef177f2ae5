"""Shared code of long-running commands: child processes, log, text output, signals, metrics port, watchdog."""
