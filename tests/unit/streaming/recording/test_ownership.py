"""The command ``owner`` reads from diffs which member owns a partition, since when, and why."""

import msgspec
import pytest
from msgspec import UNSET

from assignors.errors import BadInput
from streaming.cli.groups import partition_owner_table, topic_partition
from streaming.process.terminal import console
from streaming.recording.ownership import partition_owners
from streaming.records.diffs import Diff
from tests.support.built_diffs import START_MS, DiffBuilder
from tests.support.compacted import checkout_group


def only_changed_members(ce_id: str, diff: Diff) -> tuple[str, Diff]:
    """Return the diff as the stream writes it for large groups: with changed members only."""
    changed = {name: member for name, member in diff.members.items() if member.revoked or member.assigned}
    unchanged_count = len(diff.members) - len(changed)
    return ce_id, msgspec.structs.replace(diff, members=changed, unchanged=unchanged_count or UNSET)


@pytest.mark.parametrize("all_members", [True, False])
def test_each_move_has_its_time_and_cause(all_members: bool) -> None:
    diffs = [record if all_members else only_changed_members(*record) for record in checkout_group("shop").diffs]
    (owner,) = partition_owners(diffs, "t", 2)
    assert (owner.group_id, owner.owners, owner.since) == ("shop", ["pay@h1#2"], START_MS + 616_000)
    assert [(move.before, move.owners, move.cause.kind, move.at - START_MS) for move in owner.moves] == [
        (["web@h1#1=web-0"], ["pay@h1#2"], "member.joined", 616_000),
        (["pay@h2#1"], ["web@h1#1=web-0"], "member.joined", 606_000),
        ([], ["pay@h2#1"], "member.joined", 1000),
    ]
    assert owner.moves[0].names[owner.owners[0]] == "pay (h1)"


def test_past_owner_of_a_partition_is_returned() -> None:
    (past_owner,) = partition_owners(checkout_group("shop").diffs, "t", 2, START_MS + 2000)
    assert (past_owner.owners, past_owner.since, len(past_owner.moves)) == (["pay@h2#1"], START_MS + 1000, 1)


def test_unassigned_partition_is_shown_with_its_last_owner() -> None:
    builder = DiffBuilder(2).join("a").leave("a")
    (owner,) = partition_owners(builder.diffs, "t", 1)
    assert (owner.owners, owner.moves[0].before) == ([], ["a"])
    screen = console(is_wide=True)
    with screen.capture() as shown:
        screen.print(partition_owner_table([owner]))
    assert "nobody" in shown.get()
    assert partition_owners(builder.diffs, "t", 2) == partition_owners(builder.diffs, "u", 0) == []


def test_partitions_are_named_as_kafka_prints_them() -> None:
    assert topic_partition("eu-orders-17") == ("eu-orders", 17)
    for text in ("orders", "orders-", "-1", "orders-x", "orders-٣", "orders-99999999999"):
        with pytest.raises(BadInput, match="name a partition as TOPIC-PARTITION, such as orders-17"):
            topic_partition(text)
