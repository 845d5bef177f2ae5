"""The command line: one file a command, no logic. A command's module loads when it is called."""
