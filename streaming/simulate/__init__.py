"""Forecasts: the same membership changes under one or several protocols, in a clock of their own."""
