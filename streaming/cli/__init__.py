"""The command line: modules with commands and without logic. A module loads when one of its commands is called."""
