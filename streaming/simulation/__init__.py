"""Simulated membership changes: scenarios, forecasts, migrations, what-if. Pure; time is simulated."""

from __future__ import annotations
