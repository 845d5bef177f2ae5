"""Faults of the monitor's topics: a topic is deleted, or deleted and created again."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient

from streaming.kafka.metadata import request_identities
from streaming.kafka.topics import ensure_topics
from tests.faults.site import Report, TestedMonitor
from tests.support.kafka import eventually

#: Seconds that a busy machine may take to end a job after it has noticed the fault.
_EXIT_TIMEOUT_SECONDS = 30.0


def _delete(tested_monitor: TestedMonitor, topic: str) -> None:
    """Delete a topic, and return once the cluster has removed it."""
    admin = AdminClient({"bootstrap.servers": tested_monitor.servers})  # keep it: responses only arrive while it exists
    admin.delete_topics([topic])[topic].result(30)
    eventually(lambda: request_identities(tested_monitor.serve.settings.kafka, [topic])[topic] is None)


@contextmanager
def delete_diff_topic(tested_monitor: TestedMonitor) -> Iterator[list[Report]]:
    """Delete the diff topic after a broker restart, which raises the leader epochs; a new topic starts at epoch 0."""
    tested_monitor.broker.restart()
    tested_monitor.settle()
    tested_monitor.written |= {*tested_monitor.topic_ids()}
    reports = [
        tested_monitor.ends("stream", f"topic {tested_monitor.diffs} was deleted", within=_EXIT_TIMEOUT_SECONDS),
        tested_monitor.server_reports("topic-missing"),
    ]
    _delete(tested_monitor, tested_monitor.diffs)
    yield reports
    tested_monitor.begin("stream")


@contextmanager
def recreate_diff_topic(tested_monitor: TestedMonitor) -> Iterator[list[Report]]:
    """Delete the diff topic and create it again at once with the `topics` command."""
    tested_monitor.written |= {*tested_monitor.topic_ids()}
    reports = [
        tested_monitor.ends("stream", f"topic {tested_monitor.diffs} was deleted", within=_EXIT_TIMEOUT_SECONDS),
        tested_monitor.log_contains("serve", f"topic {tested_monitor.diffs} was deleted", "read from its beginning"),
    ]
    _delete(tested_monitor, tested_monitor.diffs)
    ensure_topics(tested_monitor.serve.settings)
    yield reports
    tested_monitor.begin("stream")


@contextmanager
def delete_membership_topic(tested_monitor: TestedMonitor) -> Iterator[list[Report]]:
    """Delete the membership topic, change groups, create the topic, and start `stream` as its error message advises."""
    tested_monitor.past.append(tested_monitor.log())
    reports = [
        tested_monitor.ends("stream", f"topic {tested_monitor.membership} was deleted", within=_EXIT_TIMEOUT_SECONDS),
        tested_monitor.log_contains("collect", f"no topic {tested_monitor.membership}: waiting", within=60.0),
    ]
    _delete(tested_monitor, tested_monitor.membership)
    tested_monitor.change()
    yield reports
    ensure_topics(tested_monitor.serve.settings)
    tested_monitor.restart_from_retained_records()
