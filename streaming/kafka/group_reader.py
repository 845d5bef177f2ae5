"""A live group and the membership log, read from the monitor's topics: no access to the group itself is needed."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from typing import Final

from confluent_kafka import Message

from assignors.errors import BadInput
from streaming.episodes.incidents import Thresholds
from streaming.kafka.compacted_topics import read_assignment_records, read_episode_records
from streaming.kafka.diff_reader import read_diffs
from streaming.kafka.topic_reader import TopicReader, read_to_end
from streaming.kafka.topics import describe_topics, longest_records
from streaming.monitor.outputs import Listing, Sinks
from streaming.recording.history import RecordedHistory, history_at
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.diffs import Diff, UnknownGroup
from streaming.records.episodes import Episode
from streaming.records.events import CLUSTER
from streaming.settings.config import Settings
from streaming.simulation.changes import Change, PastEpisode, RequestedChange, baseline_of, request_change
from streaming.simulation.live_group import EVENT_TYPES, LiveGroup, MembershipLog
from streaming.simulation.past_episode import find_episode, past_change

_log = logging.getLogger(__name__)
_AT_ONCE: Final = 2000
_SNAPSHOT: Final = "group.observed"


def read_live(
    settings: Settings, group_id: str, *, also: Collection[str] = (), each: Callable[[int], None] = lambda _: None
) -> LiveGroup:
    """Return a group's current state from the topics.

    Raises:
        UnknownGroup: nothing is known of it.
    """
    latest = next(iter(read_assignment_records(settings, group=group_id, each=each)), None)
    log, wanted = MembershipLog(group_id), group_id.encode()
    records: dict[int, list[tuple[Message, dict[str, str]]]] = defaultdict(list)
    with TopicReader(settings.kafka, [settings.topics.membership]) as reader:
        while not reader.at_end:
            messages = reader.poll(0.1, _AT_ONCE)
            each(len(messages))
            for message in messages:
                if message.key() == wanted:
                    _keep(records[message.partition() or 0], message)
    # Where the topic got more partitions, the older records of the group are in another one.
    _feed(log, merge(*records.values(), key=lambda record: record[0].timestamp()[1]))
    return log.group(latest, also)


def _keep(records: list[tuple[Message, dict[str, str]]], message: Message) -> None:
    """Keep a record of the group; of snapshots that follow each other only the last, as they are long."""
    attributes = codec.ce_attributes(message.headers())
    kind = attributes.get("type")
    if kind == _SNAPSHOT and records and records[-1][1].get("type") == _SNAPSHOT:
        del records[-1]
    if kind == _SNAPSHOT or kind in EVENT_TYPES:
        records.append((message, attributes))


def _feed(log: MembershipLog, told: Iterable[tuple[Message, dict[str, str]]]) -> None:
    for message, attributes in told:
        try:
            log.feed(codec.decode_event(message.key(), message.value(), attributes))
        except BadInput as problem:
            _log.debug("passed over, as the stream does: %s", problem)


def read_change(
    settings: Settings,
    group_id: str,
    change: Change | PastEpisode,
    times: Mapping[str, int],
    *,
    each: Callable[[int], None] = lambda _: None,
) -> RequestedChange:
    """A change of a group, from its current state, or from where a past episode began."""
    if not isinstance(change, PastEpisode):
        return request_change(baseline_of(read_live(settings, group_id, each=each)), times, change)
    told = [one.episode for one in read_episode_records(settings, group=group_id, each=each)]
    episode = find_episode(group_id, told, change.episode)
    try:
        now = read_live(settings, group_id, each=each)
    except UnknownGroup:
        now = None
    (rounds,) = read_rounds(settings, [episode], each=each)
    return past_change(episode, rounds, now, times)


def read_rounds(
    settings: Settings, episodes: Sequence[Episode], *, each: Callable[[int], None] = lambda _: None
) -> list[list[Diff]]:
    """Return the rounds of some episodes that the diff topic still has, in order, by episode."""
    wanted = {one for episode in episodes for one in episode.rounds}
    found: dict[str, Diff] = {}
    if wanted:
        groups = {episode.group_id for episode in episodes}
        group = groups.pop() if len(groups) == 1 else None
        diffs = read_diffs(settings, from_beginning=True, exit_at_end=True, group=group)
        for record in diffs:
            each(1)
            if record.id in wanted:
                found[record.id] = record.diff
                if len(found) == len(wanted):
                    break
    return [[found[one] for one in episode.rounds if one in found] for episode in episodes]


def replay_sinks(settings: Settings, listing: Listing | None = None) -> Sinks:
    """Return where a replay's outputs go: topic names, size limits and thresholds, as in the Spark job.

    ``listing``: which members diffs list; None: as in the settings.
    """
    topics, stream = settings.topics, settings.stream
    return Sinks(
        *topics.names,
        partitions=dict.fromkeys((*topics.names, topics.episodes, topics.incidents), 1),
        # A diff that its topic would refuse as too large is left out, as in the stream.
        max_bytes=longest_records(describe_topics(settings)),
        episodes=topics.episodes,
        quiet_ms=stream.episode_quiet_ms,
        storm_turns=stream.episode_storm_turns,
        incidents=topics.incidents,
        thresholds=Thresholds(**settings.incidents.model_dump()),
        expected_partitions=stream.expected_partitions,
        listing=listing or stream.diffs,
    )


def read_log(
    settings: Settings,
    group: str | None = None,
    *,
    with_cluster: bool = False,
    until: Callable[[], bool] = lambda: False,
    each: Callable[[int], None] = lambda _: None,
) -> Iterator[Record]:
    """Yield the records of the membership topic, of all groups or of one, until ``until()`` is true.

    ``with_cluster``: beside one group's also the events of the cluster. ``each`` is called with the number of
    records read.
    """
    keys = None if group is None else {group.encode(), *([CLUSTER.encode()] if with_cluster else [])}
    for message in read_to_end(settings.kafka, settings.topics.membership, until=until):
        each(1)
        if keys is None or message.key() in keys:
            place = (message.partition() or 0, message.offset() or 0)
            yield Record.of(*place, message.key(), message.value(), message.headers() or [])


def read_history(
    settings: Settings, at_ms: int, group: str | None = None, *, each: Callable[[int], None] = lambda _: None
) -> RecordedHistory:
    """Return the history of all groups, or of one, as of ``at_ms``; errors as :func:`read_log`."""
    return history_at(read_log(settings, group, with_cluster=True, each=each), at_ms, replay_sinks(settings))
