"""Replay of the membership log: groups as of a past moment, recordings in one file, and reports."""
