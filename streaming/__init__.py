"""The monitor: collectors, the Spark job, the feed and the command line around a pure core.

For programs that read the diffs; each name loads its module on first use::

    from streaming import load, read_diffs

    for record in read_diffs(load(bootstrap_servers="127.0.0.1:9092"), from_beginning=True):
        print(record.diff.group_id, record.diff.cause.kind, record.diff.moved)
"""

from typing import TYPE_CHECKING

from assignors import lazy_names

if TYPE_CHECKING:
    from streaming.kafka.compacted_topics import read_assignments, read_episodes, read_incidents
    from streaming.kafka.diff_reader import DiffReader, DiffRecord, read_diffs
    from streaming.kafka.producer import EventProducer
    from streaming.records.diffs import Diff, LatestAssignment
    from streaming.records.episodes import Episode, Incident
    from streaming.records.events import (
        Event,
        MemberFenced,
        MemberJoined,
        MemberLeft,
        PartitionsChanged,
        SubscriptionChanged,
        TopicMetadata,
    )
    from streaming.settings.config import Settings, load

#: The names that other programs import from this package; the modules that define them may change.
_NAMES_BY_MODULE = {
    "streaming.kafka.compacted_topics": ("read_assignments", "read_episodes", "read_incidents"),
    "streaming.kafka.producer": ("EventProducer",),
    "streaming.kafka.diff_reader": ("DiffReader", "DiffRecord", "read_diffs"),
    "streaming.settings.config": ("Settings", "load"),
    "streaming.records.diffs": ("Diff", "LatestAssignment"),
    "streaming.records.episodes": ("Episode", "Incident"),
    "streaming.records.events": (
        "Event",
        "MemberFenced",
        "MemberJoined",
        "MemberLeft",
        "PartitionsChanged",
        "SubscriptionChanged",
        "TopicMetadata",
    ),
}

__all__ = ["Diff", "DiffReader", "DiffRecord", "Episode", "Event", "EventProducer", "Incident", "LatestAssignment"]
__all__ += ["MemberFenced", "MemberJoined", "MemberLeft", "PartitionsChanged", "Settings", "SubscriptionChanged"]
__all__ += ["TopicMetadata", "load", "read_assignments", "read_diffs", "read_episodes", "read_incidents"]

__getattr__, __dir__ = lazy_names(globals(), _NAMES_BY_MODULE)
