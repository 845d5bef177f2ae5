"""Simulated membership changes: scenarios, forecasts, migrations and what-if, as pure code with simulated time."""
