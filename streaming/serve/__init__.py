"""The feed: history of diffs, server-sent events, JSON, metrics and the page, from one small ASGI process."""
