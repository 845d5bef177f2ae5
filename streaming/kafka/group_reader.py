"""Reads a live group and the membership log from the monitor's topics, without access to the group itself."""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from heapq import merge
from typing import Final

from confluent_kafka import Message

from assignors.errors import BadInput
from streaming.kafka.compacted_topics import read_assignment_records, read_episode_records
from streaming.kafka.diff_reader import read_diffs
from streaming.kafka.topic_reader import read_to_end
from streaming.kafka.topics import configured_sinks, describe_topics
from streaming.monitor.outputs import ListedMembers, Sinks
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
_SNAPSHOT_TYPE: Final = "group.observed"


def read_live_group(
    settings: Settings, group_id: str, *, also: Collection[str] = (), on_step: Callable[[int], None] = lambda _: None
) -> LiveGroup:
    """Return a group's current state from the topics; raise UnknownGroup if the topics have no record of the group."""
    latest = next(iter(read_assignment_records(settings, group=group_id, on_step=on_step)), None)
    log, key = MembershipLog(group_id), group_id.encode()
    records: dict[int, list[tuple[Message, dict[str, str]]]] = defaultdict(list)
    for message in read_to_end(settings.kafka, settings.topics.membership):
        on_step(1)
        if message.key() == key:
            _keep_record(records[message.partition() or 0], message)
    # After the topic got more partitions, older records of the group are in another partition.
    for message, attributes in merge(*records.values(), key=lambda record: record[0].timestamp()[1]):
        try:
            log.feed(codec.decode_event(message.key(), message.value(), attributes))
        except BadInput as problem:
            _log.debug("skipped, as the stream does: %s", problem)
    return log.group(latest, also)


def _keep_record(records: list[tuple[Message, dict[str, str]]], message: Message) -> None:
    """Append a record of the group; a snapshot replaces a snapshot directly before it, because snapshots are long."""
    attributes = codec.ce_attributes(message.headers())
    kind = attributes.get("type")
    if kind == _SNAPSHOT_TYPE and records and records[-1][1].get("type") == _SNAPSHOT_TYPE:
        del records[-1]
    if kind == _SNAPSHOT_TYPE or kind in EVENT_TYPES:
        records.append((message, attributes))


def read_change_cost(
    settings: Settings,
    group_id: str,
    change: Change | PastEpisode,
    times: Mapping[str, int],
    *,
    on_step: Callable[[int], None] = lambda _: None,
) -> RequestedChange:
    """Return a requested change of a group, applied to its current state or to the beginning of a past episode."""
    if not isinstance(change, PastEpisode):
        return request_change(baseline_of(read_live_group(settings, group_id, on_step=on_step)), times, change)
    episodes = [record.episode for record in read_episode_records(settings, group=group_id, on_step=on_step)]
    episode = find_episode(group_id, episodes, change.episode)
    try:
        now = read_live_group(settings, group_id, on_step=on_step)
    except UnknownGroup:
        now = None
    (rounds,) = read_rounds(settings, [episode], on_step=on_step)
    return past_change(episode, rounds, now, times)


def read_rounds(
    settings: Settings, episodes: Sequence[Episode], *, on_step: Callable[[int], None] = lambda _: None
) -> list[list[Diff]]:
    """Return the diffs of each episode's rounds, in order; diffs that were deleted from the topic are left out."""
    ids = {diff_id for episode in episodes for diff_id in episode.rounds}
    diffs: dict[str, Diff] = {}
    groups = {episode.group_id for episode in episodes}
    group = groups.pop() if len(groups) == 1 else None
    for record in read_diffs(settings, from_beginning=True, exit_at_end=True, group=group) if ids else ():
        on_step(1)
        if record.id in ids:
            diffs[record.id] = record.diff
            if len(diffs) == len(ids):
                break
    return [[diffs[diff_id] for diff_id in episode.rounds if diff_id in diffs] for episode in episodes]


def replay_sinks(settings: Settings, listing: ListedMembers | None = None) -> Sinks:
    """Return the configuration of a replay's outputs: topic names, size limits and thresholds, as in the Spark job.

    ``listing``: the members that diffs list; None: as in the settings. A diff that is too large for its topic is
    left out, as in the Spark job.
    """
    topics, listing = settings.topics, listing or settings.stream.diffs
    partitions = dict.fromkeys((*topics.names, topics.episodes, topics.incidents), 1)
    sinks = configured_sinks(settings, describe_topics(settings), partitions)
    return sinks._replace(episodes=topics.episodes, incidents=topics.incidents, listing=listing)


def read_log(
    settings: Settings,
    group: str | None = None,
    *,
    with_cluster: bool = False,
    until: Callable[[], bool] = lambda: False,
    on_step: Callable[[int], None] = lambda _: None,
) -> Iterator[Record]:
    """Yield the records of the membership topic, of all groups or of one group, until ``until()`` returns true.

    ``with_cluster``: besides one group's events also yield the cluster's events. ``on_step`` is called with the number
    of records read since the last call.
    """
    keys = None if group is None else {group.encode(), *([CLUSTER.encode()] if with_cluster else [])}
    for message in read_to_end(settings.kafka, settings.topics.membership, until=until):
        on_step(1)
        if keys is None or message.key() in keys:
            place = (message.partition() or 0, message.offset() or 0)
            yield Record.of(*place, message.key(), message.value(), message.headers() or [])


def read_history(
    settings: Settings, at_ms: int, group: str | None = None, *, on_step: Callable[[int], None] = lambda _: None
) -> RecordedHistory:
    """Return the history of all groups, or of one group, as of ``at_ms``; raises as :func:`read_log`."""
    return history_at(read_log(settings, group, with_cluster=True, on_step=on_step), at_ms, replay_sinks(settings))
