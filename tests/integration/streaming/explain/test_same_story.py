"""Compares the stories of real incidents from the broker's log, from clients' logs and from the live monitor."""

import gzip
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from streaming.kafka.broker import EmbeddedBroker
from streaming.records.episodes import Episode
from tests.acceptance.situations.member_kind import MemberKind
from tests.integration.streaming.collect.collector_process import CollectorProcess, topic_with_writer
from tests.integration.streaming.protocols.java_members import JavaMembers
from tests.support.command import run
from tests.support.kafka import LONG_BROKER_SESSION, PROPERTIES, eventually, unique_name
from tests.support.live_stream import LiveStream
from tests.support.members import CONSUMER, COOPERATIVE, EAGER, Member, Share
from tests.support.wait import await_unchanged_value

pytestmark = [pytest.mark.broker, pytest.mark.full, pytest.mark.timeout(600)]

PARTITIONS: Final = 6
#: Names that no word of Kafka contains, so that they can be searched in an anonymised file.
MEMBER_ANN, MEMBER_BOB, MEMBER_CID = "ledger-ann", "ledger-bob", "ledger-cid"
_DEBUG_PROPERTIES: Final = ("log_level=7", "debug=cgrp")
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "eager": EAGER | {"properties": (*EAGER["properties"], *_DEBUG_PROPERTIES)},
    "cooperative": COOPERATIVE | {"properties": (*COOPERATIVE["properties"], *_DEBUG_PROPERTIES)},
    "consumer": CONSUMER,
}
#: Client libraries with their protocols.
KINDS: Final = (
    ("confluent", "eager"),
    ("confluent", "cooperative"),
    ("confluent", "consumer"),
    ("kafka-python", "eager"),
    ("java", "eager"),
    ("java", "cooperative"),
    ("java", "consumer"),
)

#: An episode: its kind, and the member ids that joined and that departed.
Summary = tuple[str, frozenset[str], frozenset[str]]


@dataclass
class LoggedGroup:
    """A group whose clients write logs: one log per member (Python), or one log for all members (Java)."""

    servers: str
    topic: str
    client: str
    protocol: str
    folder: Path
    java: JavaMembers
    id: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    java_names: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.id = unique_name(f"ledgergroup-{self.client}-{self.protocol}")

    def start(self, name: str) -> None:
        if self.client == "java":
            config = MemberKind("java", self.protocol).java_config(self.servers, self.id, name)
            self.java_names.add(name)
            self.java.start(f"{self.id}/{name}", config, [self.topic])
            return
        options = {"protocol": self.protocol} if self.client == "kafka-python" else _OPTIONS[self.protocol]
        log = self.folder / f"{self.id}-{name}.log"
        self.members[name] = Member(
            self.servers, self.id, name, [self.topic], client=self.client, log=log, session_timeout_ms=6000, **options
        )

    def leave(self, name: str) -> None:
        if self.client == "java":
            self.java_names.remove(name)
            self.java.close(f"{self.id}/{name}", "LEAVE_GROUP")
        else:
            self.members.pop(name).close()

    def crash(self, name: str) -> None:
        if self.client == "java":
            self.java_names.remove(name)
            self.java.close(f"{self.id}/{name}", "REMAIN_IN_GROUP")
        else:
            self.members.pop(name).crash()

    def kind_of(self, incident: "Incident") -> str | None:
        """Return the expected kind of an incident of this group; None if it depends on the client's timing."""
        if self.client == "kafka-python":
            return None  # its leader may request further generations
        if (self.client, self.protocol, incident.kind) == ("java", "consumer", "crash"):
            return "scale-in"  # this client always leaves when it closes
        return incident.kind

    def owned(self) -> dict[str, Share]:
        shares = {name: self.java.owned[f"{self.id}/{name}"] or {} for name in self.java_names}
        return shares | {name: member.owned for name, member in self.members.items()}

    def is_whole(self) -> bool:
        """Return true if every member owns a partition, and every partition is owned once."""
        assert not self.java.failures, self.java.failures
        owned = self.owned()
        partitions = sorted(p for share in owned.values() for numbers in share.values() for p in numbers)
        return all(owned.values()) and partitions == [*range(PARTITIONS)]


@dataclass
class Incident:
    """One change of all groups in the test: its expected kind, begin and end (ms), and each group's live episode."""

    kind: str
    began: int
    ended: int = 0
    episodes: dict[str, Episode] = field(default_factory=dict)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def live(episode: Episode) -> Summary:
    members = episode.members
    gone = frozenset([*members.left, *members.lost, *members.gone])
    return episode.kind, frozenset(members.joined) - gone, gone


def explained(*files: Path, incident: Incident) -> dict[str, Summary]:
    """Run ``explain`` over the time of an incident; return each group's episode, if it is the group's only one."""
    done = run("explain", *map(str, files), "--json", "--from", str(incident.began), "--to", str(incident.ended))
    assert done.returncode == 0, done.stderr
    summaries: dict[str, list[Summary]] = {}
    for document in map(json.loads, done.stdout.splitlines()):
        if document["type"] == "episode":
            members = document["members"]
            gone = frozenset([*members["left"], *members["lost"], *members["gone"]])
            entry = document["kind"], frozenset(members["joined"]) - gone, gone
            summaries.setdefault(document["groupId"], []).append(entry)
    assert all(len(episodes) == 1 for episodes in summaries.values()), summaries
    return {group_id: episodes[0] for group_id, episodes in summaries.items()}


@contextmanager
def played(folder: Path) -> Iterator[tuple[EmbeddedBroker, CollectorProcess, list[LoggedGroup], list[Incident]]]:
    """Start groups of all kinds; let a member join, leave and crash; yield the incidents and the monitor's reports."""
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(properties=PROPERTIES | LONG_BROKER_SESSION))
        topic = stack.enter_context(topic_with_writer(broker.bootstrap_servers))
        collecting = CollectorProcess(
            broker.bootstrap_servers, "ledgergroup-.*", "--coordinator-log", str(broker.log_path)
        )
        stack.enter_context(collecting)
        view = stack.enter_context(LiveStream(collecting.settings))
        java = stack.enter_context(JavaMembers(log=folder / "java.log"))
        groups = [LoggedGroup(broker.bootstrap_servers, topic, *kind, folder, java) for kind in KINDS]
        incidents: list[Incident] = []

        def change(kind: str, apply: Callable[[LoggedGroup], None]) -> None:
            incident = Incident(kind, now_ms())
            for group in groups:
                apply(group)
            for group in groups:
                eventually(group.is_whole)
                eventually(lambda: len(view.current_partitions(group.id)) == len(group.owned()))  # noqa: B023 - called at once
            # kafka-python's leader may request one more generation within a heartbeat.
            await_unchanged_value(lambda: [len(view.rounds(group.id)) for group in groups], 5)
            for group in groups:
                eventually(lambda: view.rest(group.id))  # noqa: B023 - called at once
                eventually(lambda: len(view.episodes(group.id)) == len(incidents) + 1)  # noqa: B023 - called at once
                incident.episodes[group.id] = view.episodes(group.id)[-1]
            incident.ended = now_ms()
            incidents.append(incident)

        def begin(group: LoggedGroup) -> None:
            group.start(MEMBER_ANN)
            group.start(MEMBER_BOB)

        change("first-start", begin)
        change("scale-out", lambda group: group.start(MEMBER_CID))
        change("scale-in", lambda group: group.leave(MEMBER_BOB))
        change("crash", lambda group: group.crash(MEMBER_CID))
        try:
            yield broker, collecting, groups, incidents
        finally:
            for group in groups:
                for name in [*group.members]:
                    group.leave(name)


def test_logs_and_the_live_monitor_give_the_same_story(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with played(tmp_path) as (broker, collecting, groups, incidents):
        log = tmp_path / "broker.log"
        log.write_bytes(broker.log_path.read_bytes())
        recording = tmp_path / "anonymous.rmlog"
        at = ("--bootstrap-servers", broker.bootstrap_servers, "--topic-prefix", collecting.settings.topics.prefix)
        recorded_group = groups[0]
        done = run("record", recorded_group.id, *at, "--anonymise", "-o", str(recording))
        assert done.returncode == 0, done.stderr
        original_names = [
            recorded_group.id,
            recorded_group.topic,
            MEMBER_ANN,
            MEMBER_BOB,
            MEMBER_CID,
            "ledger",
            "127.0.0.1",
        ]
    clients = sorted({*tmp_path.glob("ledgergroup-*.log"), tmp_path / "java.log"})
    agreed: dict[str, Counter[str]] = {"broker": Counter(), "clients": Counter(), "all logs": Counter()}
    for incident in incidents:
        sources = {"broker": (log,), "clients": clients, "all logs": (log, *clients)}
        output_by_source = {name: explained(*files, incident=incident) for name, files in sources.items()}
        for group in groups:
            kind, joined, gone = live(incident.episodes[group.id])
            assert group.kind_of(incident) in (kind, None), (group.id, incident.episodes[group.id].story)
            for name, episodes in output_by_source.items():
                place = (name, group.id, incident.kind, kind)
                episode = episodes[group.id]
                assert episode[0] in (kind, "unknown"), (place, episode)
                is_whole = episode[0] == kind and name != "clients"
                assert episode[1:] == (joined, gone) or (
                    not is_whole and episode[1] <= joined and episode[2] <= gone
                ), place
                agreed[name][episode[0] if episode[0] == "unknown" else "same"] += 1
    record_property("agreed", agreed)
    assert agreed["all logs"]["same"] > agreed["all logs"]["unknown"]
    text = gzip.decompress(recording.read_bytes()).decode()
    assert [original for original in original_names if original in text] == []
    replayed = run("replay", str(recording), "--check")  # the broker has ended
    assert (replayed.returncode, replayed.stderr) == (0, "no differences\n")
