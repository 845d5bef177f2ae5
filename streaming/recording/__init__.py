"""The membership log played again: a group as of any moment, recordings in one file, and reports."""
