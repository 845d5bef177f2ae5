"""The web service: history of diffs, server-sent events, JSON API, metrics and the page, in one small ASGI process."""
