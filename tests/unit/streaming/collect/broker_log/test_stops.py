"""Bounds of the downtime in a rebalance, from its phases in the coordinator's log: prepared, stabilized, assigned."""

import pytest
from msgspec import UNSET, UnsetType

from streaming.collect.broker_reasons import stop_event
from streaming.records.events import Event, GroupObserved, Holding, ObservedMember, PartitionsStopped, Stop
from tests.support.broker_logs import read_lines

#: 2026-11-21 11:45 in UTC.
MINUTE_START_MS = 1_795_261_500_000


def line(at: str, message: str) -> str:
    return f"[2026-11-21 11:45:{at}] INFO [GroupCoordinator 1]: {message} (org.apache.kafka.coordinator.group.X)"


def prepare_line(at: str, reason: str = "removing member m-2 on heartbeat expiration") -> str:
    return line(at, f"Preparing to rebalance group g in state Stable with old generation 4 (reason: {reason})")


JOINED = "Adding new member m-3 with group instance id null"
REJOINED = "Updating metadata for member m-1 during Stable"


def stabilized_line(at: str) -> str:
    return line(at, "Stabilized group g generation 5 with 2 members.")


def assigned(at: str) -> str:
    return line(at, "Assignment received from leader m-1 for group g for generation 5. The group has 2 members.")


PHASES = prepare_line("01,000"), stabilized_line("04,900"), assigned("05,000")


def remove_timestamp(text: str) -> str:
    return text.partition("] ")[2]


def stop(*lines: str, record: int = 5_010, group: str = "g", number: int = 5) -> Stop | None:
    stops = read_lines(*lines).phases.stops(group, number, MINUTE_START_MS + record)
    return None if stops is None or stops.eager == Stop() else stops.eager


@pytest.mark.parametrize("zone", [0, 3_600_000, -12_600_000, 20_700_000])
def test_log_time_zone_does_not_matter(zone: int) -> None:
    assert stop(*PHASES, record=5_010 + zone) == Stop(
        stopped_after=MINUTE_START_MS + zone + 1_000, stopped_before=MINUTE_START_MS + zone + 4_900
    )


@pytest.mark.parametrize(
    ("earlier", "stopped_after"),
    [
        ((prepare_line("01,000"), stabilized_line("02,000")), MINUTE_START_MS + 1_000),  # without an assignment
        ((stabilized_line("02,000"),), UNSET),  # the log begins within a phase
    ],
)
def test_earlier_generation_extends_the_next_stop(earlier: tuple[str, ...], stopped_after: int | UnsetType) -> None:
    lines = *earlier, prepare_line("02,500", JOINED), stabilized_line("04,900"), assigned("05,000")
    assert stop(*lines) == Stop(stopped_after=stopped_after, stopped_before=MINUTE_START_MS + 4_900)


@pytest.mark.parametrize("reasons", [(REJOINED,), (JOINED, REJOINED), (REJOINED, JOINED)])
def test_member_that_rejoins_by_itself_stopped_before(reasons: tuple[str, ...]) -> None:
    lines = [prepare_line("01,000", reason) for reason in reasons]
    stopped = stop(*lines, stabilized_line("04,900"), assigned("05,000"))
    assert stopped is not None
    assert stopped.stopped_after is UNSET


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (assigned("05,000"),),
        (prepare_line("01,000"), stabilized_line("04,900")),
        (prepare_line("01,000", REJOINED), assigned("05,000")),
        (remove_timestamp(prepare_line("01,000")), remove_timestamp(stabilized_line("04,900")), assigned("05,000")),
        (prepare_line("99,000"), assigned("05,000")),
    ],
)
def test_generation_without_logged_phases_has_no_bounds(lines: tuple[str, ...]) -> None:
    assert stop(*lines) is None


def test_lines_of_other_generations_are_not_evidence() -> None:
    assert stop(*PHASES, record=6_001) is None
    assert stop(*PHASES, number=6) is None
    assert stop(*PHASES, assigned("06,000")) == stop(*PHASES)


REVOKED = "Member m-1 joining group during Stable; client reason: need to revoke partitions and re-join"


def left(client_reason: str) -> str:
    return line(
        "00,900",
        f"[GroupId g] Dynamic member m-1 has left group through explicit `LeaveGroup` request; {client_reason}",
    )


@pytest.mark.parametrize(
    ("lines", "stopped"),
    [
        ((prepare_line("01,000", REVOKED),), {"m-1": MINUTE_START_MS + 1_000}),
        (
            (left("client reason: the consumer is being closed"), prepare_line("01,000", "x")),
            {"m-1": MINUTE_START_MS + 900},
        ),
        ((left("client reason: consumer poll timeout has expired."), prepare_line("01,000", "x")), {}),
        ((left("client reason: not provided"), prepare_line("01,000", JOINED)), {}),
        ((prepare_line("01,000"),), {}),
    ],
)
def test_member_has_stopped_when_it_requests_a_join_or_leave(lines: tuple[str, ...], stopped: dict[str, int]) -> None:
    stops = read_lines(*lines, assigned("05,000")).phases.stops("g", 5, MINUTE_START_MS + 5_010)
    assert stops is not None
    assert stops.stopped_before == stopped


@pytest.mark.parametrize(
    ("protocol", "expected_owned", "revoked_partitions"),
    [("range", {}, {"t": [0, 1, 2]}), ("cooperative-sticky", {"t": [0]}, {"t": [1, 2]})],
)
def test_stop_lists_the_partitions_that_a_member_revoked(
    protocol: str, expected_owned: Holding, revoked_partitions: Holding
) -> None:
    previous = snapshot(protocol, 4, assigned={"t": [0]}, owned={"t": [0, 1, 2]})
    now = Event("s", "i", snapshot(protocol, 5, assigned={"t": [0]}, owned=expected_owned))
    event = stop_event(now, read_lines(prepare_line("01,000", REVOKED), assigned("05,000")), previous)
    assert event is not None
    assert event.data == PartitionsStopped(
        group_id="g",
        timestamp=MINUTE_START_MS + 5_010,
        source="coordinator-log",
        stops=[Stop(partitions=revoked_partitions, stopped_before=MINUTE_START_MS + 1_000)],
        generation=5,
    )


def snapshot(protocol: str, generation: int, *, assigned: Holding, owned: Holding) -> GroupObserved:
    member = ObservedMember("m-1", client_id="c", client_host="/h", topics=["t"], assigned=assigned, owned=owned)
    return GroupObserved(
        group_id="g",
        timestamp=MINUTE_START_MS + 5_010,
        group_protocol="classic",
        generation=generation,
        protocol=protocol,
        members=[member],
    )


def test_stop_bounds_apply_only_to_the_record_after_their_phase() -> None:
    log = read_lines(*PHASES)
    assert log.phases.stops("g", 5, MINUTE_START_MS + 65_010) is None
    assert log.phases.stops("g", 5, MINUTE_START_MS + 5_010) is not None
    assert log.phases.stops("g", 5, MINUTE_START_MS + 5_020) is None


def test_log_times_without_ms_bound_a_stop_by_whole_seconds() -> None:
    lines = [line.replace(",000]", "]").replace(",900]", "]") for line in PHASES]
    assert stop(*lines, record=5_990) == Stop(
        stopped_after=MINUTE_START_MS + 1_000, stopped_before=MINUTE_START_MS + 4_999
    )
