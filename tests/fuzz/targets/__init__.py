"""The names of all targets by module; the targets with the least trusted input come first."""

from importlib import import_module

from tests.fuzz.case import FuzzTarget

NAMES = {
    **dict.fromkeys(("offsets-topic", "coordinator-log"), "offsets"),
    "embedded": "embedded",
    **dict.fromkeys(("polling", "replay"), "polling"),
    **dict.fromkeys(("http", "http-bytes"), "http"),
    **dict.fromkeys(("membership", "diffs", "assignments", "dead-letters"), "topics"),
    **dict.fromkeys(("state", "checkpoint", "history-file", "history-rows", "settings"), "files"),
    **dict.fromkeys(("assign", "check", "partition", "place", "scenario"), "json_lines"),
}


def get(name: str) -> FuzzTarget:
    """Return the fuzz target with this name; its module is imported only now, so that coverage includes the import."""
    targets: dict[str, FuzzTarget] = {
        target.name: target for target in import_module(f"{__name__}.{NAMES[name]}").TARGETS
    }
    return targets[name]
