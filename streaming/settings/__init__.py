"""Settings from TOML, environment and options."""
