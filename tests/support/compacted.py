"""Records of the compacted topics (assignments, episodes, ...) for the group of a ``DiffBuilder``."""

from collections.abc import Iterator
from typing import NamedTuple

from streaming.records.codec import encode
from streaming.records.diffs import LatestAssignment, MemberNames
from streaming.records.episodes import Episode, EpisodeRecord, key
from tests.support.built_diffs import START_MS, DiffBuilder, named
from tests.support.diff_episodes import QuietNote, updates
from tests.support.incidents import incident

ASSIGNMENTS, EPISODES, INCIDENTS = "rebalance.assignments", "rebalance.episodes", "rebalance.incidents"


class Record(NamedTuple):
    """A record of a compacted topic; ``topic`` is the topic's name without the prefix."""

    topic: str
    key: bytes
    value: bytes


def latest(builder: DiffBuilder) -> LatestAssignment:
    """Return the group's current assignment as the latest-assignment record."""
    return LatestAssignment(
        group_id=builder.group_id,
        protocol=builder.protocol,
        assignor=builder.assignor,
        generation=len(builder.diffs),
        group_epoch=None,
        timestamp=builder.now,
        members=builder.members,
        kind=builder.kind,
        names={
            member: MemberNames(client_id=client, client_host=host, group_instance_id=instance)
            for member in builder.members
            for client, host, instance in [named(member)]
        },
    )


def episode_updates(builder: DiffBuilder, *, over: bool = True) -> list[Episode]:
    """Return every update of every episode of the group, oldest first. ``over``: the last episode has ended."""
    end = [QuietNote(builder.diffs[-1][0])] if over else []
    return list(updates(builder.group_id, [*builder.diffs, *end]))


def episode_records(builder: DiffBuilder, *, over: bool = True) -> list[EpisodeRecord]:
    """Return the newest record of each episode of the group."""
    newest = {episode.episode: episode for episode in episode_updates(builder, over=over)}
    return [EpisodeRecord(episode, encode(episode)) for episode in newest.values()]


def records(builder: DiffBuilder, *, over: bool = True) -> Iterator[Record]:
    """Return all records of a group, including older ones that compaction has not yet removed."""
    group = builder.group_id
    yield Record(ASSIGNMENTS, group.encode(), encode(latest(builder)))
    for episode in episode_updates(builder, over=over):
        yield Record(EPISODES, key(group, episode.episode), encode(episode))


def checkout_group(group_id: str = "team/checkout") -> DiffBuilder:
    """Return the group ``checkout``, whose three members have started and then restarted one by one."""
    builder = DiffBuilder(6, group_id=group_id)
    builder.join("pay@h1#1", "pay@h2#1", "web@h1#1=web-0")
    for host in ("h1", "h2"):
        builder.leave(f"pay@{host}#1", after=600 if host == "h1" else 5)
        builder.join(f"pay@{host}#2", after=5)
    return builder


#: Times (ms) of the first start of the group ``checkout``, and of the start and the end of its rolling restart.
STARTED_MS, RESTARTED_MS, ENDED_MS = START_MS + 1000, START_MS + 601_000, START_MS + 616_000

#: Incidents of the group ``flappy``: one closed incident and two open incidents.
FLAPPY_INCIDENTS = (
    incident("flappy", 1, opened_at=STARTED_MS, closed_at=STARTED_MS + 1000, kind="skew"),
    incident("flappy", 2, opened_at=STARTED_MS + 2000, kind="stuck"),
    incident("flappy", 3, opened_at=STARTED_MS + 3000, story="flappy does not settle."),
)
