"""Advice for consumer groups: rules over a group's episodes, members, incidents and client configuration."""
