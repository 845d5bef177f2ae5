"""Topics that are deleted and created again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka.admin import AdminClient

from streaming.kafka.metadata import identify
from streaming.kafka.topics import ensure_topics
from tests.faults.site import Report, Site
from tests.support.kafka import eventually

#: Seconds that a busy machine may take to end a job after it has noticed the fault.
_GONE_SECONDS = 30.0


def _delete(site: Site, topic: str) -> None:
    """Delete a topic, and return once the cluster has removed it."""
    admin = AdminClient({"bootstrap.servers": site.servers})  # keep it: responses only arrive while it exists
    admin.delete_topics([topic])[topic].result(30)
    eventually(lambda: identify(site.serve.settings.kafka, [topic])[topic] is None)


@contextmanager
def diffs_deleted(site: Site) -> Iterator[list[Report]]:
    """Delete the diff topic after a broker restart, which raises the leader epochs; a new topic starts at epoch 0."""
    site.broker.restart()
    site.settle()
    site.written |= {*site.topic_ids()}
    reports = [
        site.ends("stream", f"topic {site.diffs} was deleted", within=_GONE_SECONDS),
        site.server_reports("topic-missing"),
    ]
    _delete(site, site.diffs)
    yield reports
    site.begin("stream")


@contextmanager
def diffs_made_again(site: Site) -> Iterator[list[Report]]:
    """Delete the diff topic and create it again at once with the `topics` command."""
    site.written |= {*site.topic_ids()}
    reports = [
        site.ends("stream", f"topic {site.diffs} was deleted", within=_GONE_SECONDS),
        site.log_contains("serve", f"topic {site.diffs} was deleted", "read from its beginning"),
    ]
    _delete(site, site.diffs)
    ensure_topics(site.serve.settings)
    yield reports
    site.begin("stream")


@contextmanager
def membership_deleted(site: Site) -> Iterator[list[Report]]:
    """Delete the membership topic, change groups, create the topic, and start `stream` as its error message advises."""
    site.past.append(site.log())
    reports = [
        site.ends("stream", f"topic {site.membership} was deleted", within=_GONE_SECONDS),
        site.log_contains("collect", f"no topic {site.membership}: waiting", within=60.0),
    ]
    _delete(site, site.membership)
    site.change()
    yield reports
    ensure_topics(site.serve.settings)
    site.begin_with_options("stream", "--on-data-loss", "restart")
