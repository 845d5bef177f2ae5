import pytest

from streaming.episodes.members import MAX_TEMPORARY_MEMBERS
from streaming.episodes.reasons import exceeds_poll_interval
from streaming.records.episodes import Repeated, Replaced
from tests.support.built_diffs import DiffBuilder
from tests.unit.streaming.episodes.test_kinds import last, started

OLD_POD, NEW_POD = "pay-7f9c6d5b8-x2x9z@h1", "pay-5d4f7c9b6-q8r7t@h2"


def replaced_member_pairs(builder: DiffBuilder) -> list[tuple[str, str]]:
    return sorted((pair.left, pair.joined) for pair in last(builder).members.replaced)


def test_members_that_left_and_rejoined_are_paired() -> None:
    for departed_id, joined, by in (
        ("c1", "c1", "member id"),
        ("x@h1#1=i", "y@h2#2=i", "instance id"),
        ("x@h1#1", "x@h1#2", "client id and host"),
        ("orders-0@h1#1", "orders-0@h2#2", "client id"),
        (OLD_POD, NEW_POD, "pod names of one Deployment"),
        ("x@h1#1=pay-7f9c6d5b8-x2x9z", "x@h2#2=pay-5d4f7c9b6-q8r7t", "pod names of one Deployment"),
        (f"{OLD_POD}#1", "pay-7f9c6d5b8-bbbbb@h9", "pod names of one Deployment"),
        ("rdkafka@h1#1", "rdkafka@h2#1", "default client id"),
        ("consumer-g-1@h1#1", "consumer-g-1@h2#1", "default client id"),
        (
            "app-00000000-1111-2222-3333-444444444444-T-1@h1",
            "app-aaaaaaaa-1111-2222-3333-444444444444-T-1@h2",
            "client id without its UUID",
        ),
    ):
        builder = started(departed_id, "other@h9#1")
        builder.leave(departed_id).join(joined)
        members = last(builder).members
        assert members.replaced == [Replaced(left=departed_id, joined=joined, by=by)]
        assert (members.joined, members.left, members.lost, members.gone) == ([], [], [], [])


@pytest.mark.parametrize(
    ("departed_id", "joined"),
    [
        ("a@h1#1", "b@h1#1"),
        ("x@h1#1=i", "x@h1#2=j"),
        ("x@h1#1=i", "x@h1#2"),
        ("pay-7f9c6d5b8-x2x9z@h1", "buy-5d4f7c9b6-q8r7t@h2"),
    ],
)
def test_members_without_a_common_name_are_not_matched(departed_id: str, joined: str) -> None:
    builder = started(departed_id, "other@h9#1")
    members = last(builder.leave(departed_id).join(joined)).members
    assert (members.joined, members.left, members.replaced) == ([joined], [departed_id], [])


@pytest.mark.parametrize(
    ("departed_id", "joined", "lost"),
    [
        ("x@h1#1", "x@h1#2", True),
        (OLD_POD, NEW_POD, False),
        (OLD_POD, "pay-7f9c6d5b8-bbbbb@h9", False),
        ("x@h1#1=i", "x@h2#2=i", False),
    ],
)
def test_replacement_may_join_first(departed_id: str, joined: str, *, lost: bool) -> None:
    builder = started(departed_id, "other@h9#1")
    builder.join(joined)
    members = last(builder.fence(departed_id) if lost else builder.leave(departed_id)).members
    assert [(pair.left, pair.joined) for pair in members.replaced] == [(departed_id, joined)]
    assert members.joined == []


@pytest.mark.parametrize(("departed_id", "joined"), [("x@h1#1", "x@h1#2"), ("rdkafka@h1#1", "rdkafka@h2#1")])
def test_earlier_member_of_the_same_name_replaced_no_member(departed_id: str, joined: str) -> None:
    builder = started(departed_id, "other@h9#1")
    members = last(builder.join(joined).leave(departed_id)).members
    assert (members.joined, members.left, members.replaced) == ([joined], [departed_id], [])


def test_nearest_match_comes_first() -> None:
    builder = started("x@h1#1", "x@h2#1").leave("x@h1#1", "x@h2#1").join("x@h2#2", "x@h1#2")
    assert replaced_member_pairs(builder) == [("x@h1#1", "x@h1#2"), ("x@h2#1", "x@h2#2")]


def test_new_pod_does_not_replace_a_returning_one() -> None:
    """A pod that rejoins under its own name keeps its identity, even if a new pod joined before it."""
    old = [f"pay-7f9c6d5b8-{pod}@h{number}#1" for number, pod in enumerate(("x2x9z", "bbbbb", "q8r7t"))]
    new = ["pay-7f9c6d5b8-r2x2z@h9#2", old[0].replace("#1", "#2"), old[1].replace("#1", "#2")]
    for arrivals in ([new], [[new[0]], [new[1]], [new[2]]]):
        builder = started(*old)
        builder.leave(*old)
        for arrival_ids in arrivals:
            builder.join(*arrival_ids)
        assert replaced_member_pairs(builder) == sorted([(old[0], new[1]), (old[1], new[2]), (old[2], new[0])])
        assert last(builder).kind == "restart"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("pay-7f9c6d5b8-x2x9z", "pay-7f9c6d5b8-q8r7t"), ("pay-5d4f7c9b6-bbbbb", "pay-5d4f7c9b6-r2x2z")),
        (("pay-7f9c6d5b8-x2x9z", "pay-7f9c6d5b8-q8r7t"), ("pay-7f9c6d5b8-bbbbb", "pay-7f9c6d5b8-r2x2z")),
        (("log-x2x9z", "log-q8r7t"), ("log-bbbbb", "log-r2x2z")),
        (("orders-0", "orders-1"), ("orders-0", "orders-1")),
        (("orders-0", "orders-1"), ("orders-2", "orders-3")),
        (("3f2a9c1b7d4e", "0b1c2d3e4f5a"), ("9f8e7d6c5b4a", "1a2b3c4d5e6f")),
        (("app-3f2a9c1b7d4e", "app-0b1c2d3e4f5a"), ("app-9f8e7d6c5b4a", "app-1a2b3c4d5e6f")),
        (("ip-10-0-0-1", "ip-10-0-0-2"), ("ip-10-0-7-1", "ip-10-0-7-2")),
        (("app", "app"), ("app", "app")),
    ],
)
@pytest.mark.parametrize("new_starts_before_stop", [False, True])
def test_pods_of_one_owner_are_matched_as_a_set(
    old: tuple[str, str], new: tuple[str, str], *, new_starts_before_stop: bool
) -> None:
    before = [f"{name}@h{number}#1" for number, name in enumerate(old)]
    after = [f"{name}@n{number}#2" for number, name in enumerate(new)]
    builder = started(*before, "stats@h9#1")
    if new_starts_before_stop:
        builder.join(*after).leave(*before)
    else:
        builder.leave(*before).join(*after)
    members = last(builder).members
    assert {pair.left for pair in members.replaced} == {*before}
    assert {pair.joined for pair in members.replaced} == {*after}
    assert (members.joined, members.left) == ([], [])


def test_members_with_one_name_are_replaced_on_their_own_host() -> None:
    """Two threads of one pod share their client id and their host."""
    builder = started("x@h1#1", "x@h1#2", "x@h2#1", "x@h2#2")
    builder.leave("x@h1#1", "x@h1#2", "x@h2#1", "x@h2#2").join("x@h2#3").join("x@h1#3").join("x@h2#4", "x@h1#4")
    hosts = [(left.partition("#")[0], joined.partition("#")[0]) for left, joined in replaced_member_pairs(builder)]
    assert hosts == [("x@h1", "x@h1")] * 2 + [("x@h2", "x@h2")] * 2


def test_extra_new_pod_counts_as_joined() -> None:
    builder = started(OLD_POD, "other@h2#1").leave(OLD_POD)
    members = last(builder.join("pay-7f9c6d5b8-bbbbb@h3", "pay-7f9c6d5b8-ccccc@h4")).members
    assert len(members.replaced) == len(members.joined) == 1


MEMBER_IDS = (
    *("a@h1#1", "a@h1#2", "a@h2#1", "a#1", "a#2", "a@h1#1=i", "b@h1#1=i", "a@h1#1=j", "m"),
    *("rdkafka@h1#1", "rdkafka@h2#1", "rdkafka#1", "rdkafka@h1#2", OLD_POD, NEW_POD, "pay-7f9c6d5b8-bbbbb@h9"),
    *("app-00000000-1111-2222-3333-444444444444-T-1@h1", "app-aaaaaaaa-1111-2222-3333-444444444444-T-1@h2"),
)


@pytest.mark.parametrize("departed_id", MEMBER_IDS)
@pytest.mark.parametrize("joined", MEMBER_IDS)
def test_matching_one_member_does_not_depend_on_others(departed_id: str, joined: str) -> None:
    results = []
    for others in ((), ("stranger@h99#1",)):
        builder = started(departed_id, "stays@h9#1")
        members = last(builder.leave(departed_id).join(joined, *others)).members
        results.append((members.replaced, [member_id for member_id in members.joined if member_id not in others]))
    assert results[0] == results[1]


def test_repeatedly_replaced_member_is_one_pair() -> None:
    builder = started("x@h1#0", "y@h2#0")
    for number in range(5):
        builder.fence(f"x@h1#{number}", after=20).join(f"x@h1#{number + 1}", after=0)
    record = last(builder)
    assert [(pair.left, pair.joined) for pair in record.members.replaced] == [("x@h1#0", "x@h1#5")]
    assert record.repeated == Repeated(member_id="x@h1#5", times=5, period_ms=20_000)


def test_member_that_keeps_requesting_rebalances_is_the_cause() -> None:
    builder = started("x@h1#0", "y@h2#0")
    for _ in range(3):
        builder.round("member.joined", who=("x@h1#0",), after=7)
    record = last(builder)
    assert (record.kind, record.members.replaced) == ("storm", [])
    assert record.repeated == Repeated(member_id="x@h1#0", times=3, period_ms=7_000)


def test_only_last_of_many_short_lived_members_are_kept() -> None:
    builder = started("stays", partitions=1)
    for number in range(MAX_TEMPORARY_MEMBERS + 1):
        builder.join(f"guest{number}", after=0.1).leave(f"guest{number}", after=0.1)
    members = last(builder).members
    assert (members.joined[0], len(members.joined)) == ("guest1", MAX_TEMPORARY_MEMBERS)


def test_poll_timeout_reason_is_recognised() -> None:
    assert exceeds_poll_interval("client reason: consumer poll timeout has expired.")
    assert not exceeds_poll_interval("the consumer is being closed")
