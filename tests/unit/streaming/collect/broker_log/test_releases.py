"""Every message of every Kafka release, in every log layout, is read with exactly the reason that it gives."""

from itertools import product

import pytest

from streaming.collect.broker_log.layouts import read_line
from tests.support import broker_messages
from tests.support.broker_logs import LOG_LAYOUTS, Layout
from tests.support.broker_messages import GROUPS, KAFKA_GO, PLAIN_MEMBER_ID, UNUSUAL_MEMBER_ID, Case, cases

RELEASES = ("2.0", "2.2", "2.4", "2.6", "2.7", "2.8", "3.0", "3.3", "3.6", "3.9", "4.0", "4.1", "4.3")
MEMBERS = (PLAIN_MEMBER_ID, KAFKA_GO, UNUSUAL_MEMBER_ID)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("layout", LOG_LAYOUTS, ids=lambda layout: layout.name)
def test_each_log_wording_is_read_in_each_layout(release: str, layout: Layout) -> None:
    """Each wording of a log message is read in each layout; it is tested only in the first release that logs it."""
    for group, member in product(GROUPS, MEMBERS):
        for case in cases(group, member):
            if next(filter(case.is_logged_by, RELEASES), None) == release:
                check(case, group, layout.render(case.message, case.logger), layout.ms)


@pytest.mark.parametrize("case", cases("g", PLAIN_MEMBER_ID), ids=lambda case: f"{case.since} {case.name}")
def test_log_message_without_coordinator_prefix_is_read(case: Case) -> None:
    message_without_prefix = case.message
    for prefix in (broker_messages.SCALA_PREFIX, broker_messages.JAVA, broker_messages.MANAGER_PREFIX):
        message_without_prefix = message_without_prefix.removeprefix(prefix)
    check(case, "g", f"[2024-05-01 10:00:00,123] INFO {message_without_prefix} ({case.logger})", 1_714_557_600_123)


def check(case: Case, group: str, line: str, ms: int) -> None:
    event = read_line(line)
    assert event is not None, line
    assert (
        event.kind,
        event.group_id,
        event.number,
        event.member_ids,
        event.reason,
        event.client_reason,
        event.timestamp and event.timestamp.ms,
    ) == (case.kind, group, case.number, case.members, case.reason, case.client_reason, ms), line


UNKNOWN_LINES = (
    "2024-05-01 10:00:00,123 INFO {} [Thread-17]",
    "2024-05-01 10:00:00,123 INFO {} {{broker=1, rack=a}}",
    "2024-05-01 10:00:00,123 {} [my-pool (1)]",
)


@pytest.mark.parametrize("layout", UNKNOWN_LINES)
@pytest.mark.parametrize("member", [PLAIN_MEMBER_ID, KAFKA_GO])
def test_text_after_a_message_of_unknown_layout_is_ignored(layout: str, member: str) -> None:
    for case in cases("orders", member):
        if case.client_reason is None or case.client_reason.count("(") == case.client_reason.count(")"):
            check(case, "orders", layout.format(case.message), 1_714_557_600_123)
