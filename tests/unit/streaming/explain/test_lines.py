"""Events read from single lines: of a client's log, of an old coordinator's log, or of a tool's output."""

import pytest

from streaming.explain.events import LogEvent
from streaming.explain.reader import LineCounts, LogReader

UUID = "3e1f0f0a-9f5c-4a57-8a3c-0e3b7d1b2c4d"
#: 2024-06-01.
NEWEST_MS = 1_717_200_000_000
JAVA = "[Consumer clientId=my app, [x], groupId=g] "
LIBRDKAFKA = "%4|1700000000.171|X|my app#consumer-1| [thrd:main]: "
POLL_TIMEOUT = LIBRDKAFKA + "Application maximum poll interval (5ms) exceeded by 8ms: leaving group\n"


def events(text: str) -> list[LogEvent]:
    reader = LogReader("x.log", NEWEST_MS, LineCounts())
    return [*reader.read(text.encode()), *reader.finish()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"{JAVA}Attempt to heartbeat failed since member id is not valid.", ("g", "expired", None, None)),
        (f"{JAVA}Attempt to heartbeat failed since generation 5 is not current", ("g", "joining", None, None)),
        (
            f"{JAVA}Attempt to heartbeat with Generation{{generationId=5}} failed due to ILLEGAL_GENERATION, resetting",
            ("g", "joining", None, None),
        ),
        (f"{JAVA}Sending LeaveGroup request to coordinator h:9092 (id: 1 rack: null)", ("g", "leaving", None, None)),
        (
            f"{JAVA}Member my app, [x]-{UUID} sending LeaveGroup request to coordinator h:9092 (id: 1) due to x",
            ("g", "leaving", f"my app, [x]-{UUID}", None),
        ),
        (
            f"{JAVA}Request joining group due to: need to re-join with the given member-id: my app, [x]-{UUID}",
            ("g", "new-id", f"my app, [x]-{UUID}", None),
        ),
        ("[Worker clientId=c, groupId=g] Joined group and got assignment: Assignment{}", ("g", "assigned", None, None)),
        ("Attempt to heartbeat failed for group my g because it is rebalancing.", ("my g", "joining", None, None)),
        ("Attempt to heartbeat failed for group my g since member id is not valid.", ("my g", "expired", None, None)),
        ("(Re-)joining group my g", ("my g", "joining", None, None)),
        ('msg="(Re-)joining group g" level=info', ("g", "joining", None, None)),
        ("Setting newly assigned partitions [t-0] for group my g (o.a.k.X)", ("my g", "assigned", None, None)),
        (
            f"Joined group 'it's g' (generation 5) with member_id my app-{UUID}",
            ("it's g", "joined", f"my app-{UUID}", 5),
        ),
        (
            f'{LIBRDKAFKA}Group "g" is rebalancing in state up (join-state x) with assignment: rebalance in progress',
            ("g", "joining", None, None),
        ),
        (f"joined group my g as member app@h (x)-{UUID} in generation 7", ("my g", "joined", f"app@h (x)-{UUID}", 7)),
        ("Leaving consumer group (my g).", ("my g", "leaving", None, None)),
        (f"Leaving consumer group my g (member app-{UUID}) due to x", ("my g", "leaving", f"app-{UUID}", None)),
        (f"Leaving group my g, member app@h (x)-{UUID}", ("my g", "leaving", f"app@h (x)-{UUID}", None)),
        (f"time=x level=INFO msg=joined group=g member_id=m-{UUID} generation=3", ("g", "joined", f"m-{UUID}", 3)),
        ('level=info msg="synced; group: g, assigned: t[0 1]"', ("g", "assigned", None, None)),
        ("Partition changes found, rebalancing group: my g.", ("my g", "growth", None, None)),
        (
            '{"message": "[Runner] The group is rebalancing, re-joining", "groupId": "g", "memberId": "m"}',
            ("g", "joining", "m", None),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_client_log_wordings_are_recognised(line: str, expected: tuple[str, str, str | None, int | None]) -> None:
    (event,) = events(line)
    client = event.client
    assert client is not None
    assert (event.group_id, client.kind, client.member_id, client.number) == expected


def test_message_without_a_group_is_skipped_in_a_log_of_several() -> None:
    lines = [LIBRDKAFKA.replace("my app", name) + f'Group "{name}": leave (in state up)\n' for name in ("g", "h")]
    assert [event.group_id for event in events("".join([*lines, POLL_TIMEOUT, *lines]))] == ["g", "h", "g", "h"]
    assert [event.group_id for event in events(POLL_TIMEOUT + lines[0])] == ["g", "g"]


def test_all_messages_without_a_group_are_counted() -> None:
    counts = LineCounts()
    reader = LogReader("x.log", NEWEST_MS, counts)
    assert [*reader.read(POLL_TIMEOUT.encode() * 250), *reader.finish()] == []
    assert (counts.understood_lines, counts.lines_without_group) == (250, 250)


def test_answers_to_stale_heartbeats_are_ignored() -> None:
    assert not events(f"{JAVA}Attempt to heartbeat with stale Generation{{}} failed due to UNKNOWN_MEMBER_ID, ignoring")


def test_message_without_a_group_gets_the_group_of_its_client() -> None:
    reason = "after 45123 ms without a successful response from the group coordinator"
    timeout = f"{LIBRDKAFKA}Consumer group session timed out (in join-state steady) {reason} (broker 3)\n"
    expired_event, _ = events(f'{timeout}{LIBRDKAFKA}Group "g": leave (in state up)\n')
    client = expired_event.client
    assert client is not None
    assert (expired_event.group_id, client.client_id, client.kind) == ("g", "my app", "expired")
    assert client.reason.endswith(reason)


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("Preparing to restabilize group g with old generation 4", 4),
        ("Stabilized group g generation 5", 5),
        ("Group g with generation 6 is now empty", 6),
    ],
)
def test_kafka_0_10_log_wordings_are_recognised(line: str, number: int) -> None:
    start = "[2016-09-01 10:00:00,123] INFO [GroupCoordinator 0]:"
    (event,) = events(f"{start} {line} (kafka.coordinator.GroupCoordinator)")
    assert event.coordinator is not None
    assert (event.group_id, event.coordinator.number) == ("g", number)


@pytest.mark.parametrize(
    ("time", "ms"),
    [
        ("12.11.2023 09:14:03,123", 1_699_780_443_123),
        ("23/11/12 09:14:03", 1_699_780_443_000),
        ("11/12/2023 09:14:03.123", -1),
    ],
)
def test_date_formats_of_other_locales_are_read(time: str, ms: int) -> None:
    (event,) = events(f"{time} INFO [Consumer clientId=c, groupId=g] (Re-)joining group")
    assert event.at == ms


def table(*rows: tuple[str, ...]) -> str:
    header = ("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS")
    column_widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return "".join(
        " ".join(cell.ljust(width) for cell, width in zip(row, column_widths, strict=True)) + "\n"
        for row in (header, *rows)
    )


def test_member_ids_with_blanks_are_read_from_tables() -> None:
    go_member_id, plain_member_id = f"app@h (x)-{UUID}", f"c-{UUID}"
    text = table(("my g", go_member_id, "-", "/10.0.0.1", "app@h (x)", "1")) + table(
        ("h", plain_member_id, "i", "/10.0.0.2", "c", "0")
    )
    listings = [(event.group_id, [*event.listing.members]) for event in events(text) if event.listing]
    assert listings == [("my g", [go_member_id]), ("h", [plain_member_id])]


def test_rows_that_are_not_in_their_columns_are_ignored() -> None:
    header = table().splitlines()[0]
    assert events(f"{header}\nmy g app@h (x)-{UUID} - /10.0.0.1 app@h (x) 1\n") == []
