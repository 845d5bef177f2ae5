"""Advice from a group's own history: rules over its episodes, members, incidents and client configuration. Pure."""

from __future__ import annotations
