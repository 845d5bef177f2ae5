"""Simulated membership changes: scenarios, forecasts, migrations, what-if. Pure, with simulated time."""

from __future__ import annotations
