"""Logs from public bug reports (logs/SOURCES.md), and the rounds and episodes that these logs give."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from streaming.explain.episodes import episode_document, round_document
from streaming.explain.reader import LineCounts, LogReader
from streaming.explain.story import EventSorter, group_stories

LOGS = Path(__file__).parent / "logs"
EXPECTED = Path(__file__).parent / "expected.json"
#: 2024-06-01: the latest possible time of a timestamp without a year.
NEWEST_MS = 1_717_200_000_000
NAMES = sorted(path.stem for path in LOGS.glob("*.log"))


def explained(*paths: Path, chunk: int = 1 << 20) -> list[dict[str, Any]]:
    sorter, counts = EventSorter(tempfile.TemporaryFile), LineCounts()
    for path in paths:
        reader, data = LogReader(path.name, NEWEST_MS, counts), path.read_bytes()
        events = [event for at in range(0, len(data), chunk) for event in reader.read(data[at : at + chunk])]
        events += reader.finish()
        for event in events:
            sorter.add(event)
    documents = []
    for story in group_stories(sorter.sorted_events(), counts.newest):
        for episode in story.episodes:
            documents += [round_document(entry) for entry in episode.rounds]
            documents.append(episode_document(episode))
    return documents


def shown(documents: list[dict[str, Any]]) -> list[str]:
    lines = []
    for document in documents:
        if document["type"] == "round":
            number = document.get("generation", document.get("groupEpoch"))
            took = None if document["ended"] is None else document["ended"] - document["began"]
            lines.append(f"round {number} {document['kind']} {','.join(document['memberIds'])} {took}")
        else:
            lines.append(f"{document['kind']} {document['sure']} {document['status']}: {document['story']}")
    return lines


@pytest.mark.parametrize("name", NAMES)
def test_log_shows_its_rounds_and_episodes(name: str) -> None:
    assert shown(explained(LOGS / f"{name}.log")) == json.loads(EXPECTED.read_text())[name]


@pytest.mark.parametrize("name", NAMES)
def test_chunk_size_does_not_change_explain(name: str) -> None:
    assert explained(LOGS / f"{name}.log", chunk=37) == explained(LOGS / f"{name}.log")


def test_order_of_log_files_does_not_change_explain() -> None:
    paths = [LOGS / f"{name}.log" for name in NAMES]
    assert explained(*paths) == explained(*reversed(paths))


def test_sorting_events_on_disk_does_not_change_explain(monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [LOGS / f"{name}.log" for name in NAMES]
    whole = explained(*paths)
    monkeypatch.setattr("streaming.explain.story._EVENTS_PER_SORTED_FILE", 7)
    assert explained(*paths) == whole


def test_offsets_topic_dump_adds_member_names_to_the_log() -> None:
    paths = [LOGS / f"{name}.log" for name in ("broker-848-embedded", "tool-dump-log-848")]
    rounds = [document for document in explained(*paths) if document["type"] == "round"]
    assert rounds == [document for document in explained(paths[0]) if document["type"] == "round"]
    assert explained(*paths)[-1]["story"].startswith("Crash of pay-1 (pay-2 left)")


@pytest.mark.parametrize("name", ["librdkafka-848", "librdkafka-cooperative"])
def test_client_logs_give_the_rounds_of_the_broker_log(name: str) -> None:
    """Clients' logs show the rounds of the broker's log except the last one, which no remaining member logs."""

    def numbers(*names: str) -> list[tuple[str, int]]:
        rounds = [name for name in explained(*(LOGS / f"{name}.log" for name in names)) if name["type"] == "round"]
        return [(round_["groupId"], round_.get("generation", round_.get("groupEpoch"))) for round_ in rounds]

    clients, broker = numbers(name), numbers("broker-4.3-rdkafka")
    group = clients[0][0]
    group_entries = [entry for entry in broker if entry[0] == group]
    assert [*clients[:-1]] == group_entries[: len(clients) - 1]
    assert numbers("broker-4.3-rdkafka", name) == broker


if __name__ == "__main__":
    expected = {name: shown(explained(LOGS / f"{name}.log")) for name in NAMES}
    EXPECTED.write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
