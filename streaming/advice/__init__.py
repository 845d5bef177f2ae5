"""Advice by rules over a group's history: its episodes, members, incidents and client configuration. Pure code."""
