"""Settings of all commands, from a TOML file, environment variables and command-line options."""
