"""Reads the membership log, to play it again by the monitor's own rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from streaming.episodes.incidents import Thresholds
from streaming.kafka.topic_reader import read_to_end
from streaming.kafka.topics import describe_topics, longest_records
from streaming.monitor.outputs import Listing, Sinks
from streaming.recording.history import History, history_at
from streaming.records.codec import Record
from streaming.records.events import CLUSTER
from streaming.settings.config import Settings


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
) -> History:
    """Return the history of all groups, or of one, as of ``at_ms``; errors as :func:`read_log`."""
    return history_at(read_log(settings, group, with_cluster=True, each=each), at_ms, replay_sinks(settings))
