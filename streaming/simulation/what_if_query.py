"""Options of the command ``what-if`` as a group change, and its results as one JSON document."""

from collections.abc import Sequence
from itertools import count, islice
from typing import Any, NamedTuple

from assignors.assignment import as_lists
from assignors.errors import BadInput
from streaming.simulation.live_group import LiveGroup
from streaming.simulation.what_if import ChangedGroup, GroupChange, Preview

#: The largest number of members that can be added.
_MAX_NEW_MEMBERS = 10_000
_MAX_PARTITIONS = 1_000_000
#: The largest number of characters that an error quotes from an option.
_QUOTE_SIZE = 60


class WhatIfQuery(NamedTuple):
    """A what-if query: the changes of a group, and the protocol and assignor to show first."""

    changes: GroupChange
    protocol: str | None = None
    assignor: str | None = None

    def chosen(self, previews: Sequence[Preview]) -> Preview | None:
        """Return the result for the requested assignor, by default the group's; None if the group's is custom."""
        own = next((preview for preview in previews if preview.own), None)
        if self.protocol is None and self.assignor is None:
            return own
        matching_outlooks = [preview for preview in previews if self.protocol in (None, preview.way.protocol)]
        matching_outlooks = [preview for preview in matching_outlooks if self.assignor in (None, preview.way.assignor)]
        if not matching_outlooks:
            assignors: dict[str, list[str]] = {}
            for preview in previews:
                assignors.setdefault(preview.way.protocol, []).append(preview.way.assignor)
            pairs = "; ".join(f"{protocol} ({', '.join(names)})" for protocol, names in assignors.items())
            requested = f"--protocol {self.protocol or 'any'} --assignor {self.assignor or 'any'}"
            raise BadInput(f"{requested}: not supported; choose from {pairs}")
        return min(matching_outlooks, key=lambda preview: own is None or preview.way.protocol != own.way.protocol)


def parse_query(
    group: LiveGroup,
    *,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    partitions: Sequence[str] = (),
    subscribe: Sequence[str] = (),
    protocol: str | None = None,
    assignor: str | None = None,
) -> WhatIfQuery:
    """Parse the options of ``what-if`` into a query."""
    return WhatIfQuery(
        GroupChange(
            add=tuple(_names(group, add)),
            remove=tuple(dict.fromkeys(remove)),
            partitions=dict(map(_partitions, partitions)),
            subscribe=tuple(dict.fromkeys(subscribe)) or None,
        ),
        protocol,
        assignor,
    )


def _names(group: LiveGroup, add: Sequence[str]) -> list[str]:
    taken: set[str | None] = set()
    for member in group.members:
        taken.update((member.member_id, member.names.client_id, member.names.group_instance_id))
    names: dict[str, None] = {}
    for word in add:
        if not word.isdecimal():
            names[word] = None
            continue
        number = _number(word, _MAX_NEW_MEMBERS)
        if number is None:
            raise BadInput(f"--add {word[:_QUOTE_SIZE]}: give a member name, or a number from 1 to {_MAX_NEW_MEMBERS}")
        free = (new for index in count(1) if (new := f"new-{index}") not in taken and new not in names)
        names |= dict.fromkeys(list(islice(free, number)))
    return list(names)


def _partitions(text: str) -> tuple[str, int]:
    topic, _, digits = text.rpartition("=")
    number = _number(digits, _MAX_PARTITIONS)
    if not topic or number is None:
        raise BadInput(f"--partitions {text[:_QUOTE_SIZE]}: give TOPIC=N, N from 1 to {_MAX_PARTITIONS}")
    return topic, number


def _number(text: str, most: int) -> int | None:
    """Return the number in the text, if it is from 1 to ``most`` and in ASCII digits, else None.

    The length is checked first, as Python refuses to convert more than 4,300 digits.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most))):
        return None
    number = int(text)
    return number if 0 < number <= most else None


def what_if_document(change: ChangedGroup, previews: Sequence[Preview], chosen: Preview | None) -> dict[str, Any]:
    """Return the JSON document that ``what-if --json`` prints."""
    before, after = change.before, change.after
    added, names = [member.member_id for member in after.members if member.member_id in change.new], after.names
    remaining_ids = {member.member_id for member in after.members}
    return {
        "groupId": before.group_id,
        "kind": before.kind,
        "protocol": before.protocol,
        "assignor": before.assignor,
        "generation": before.number if before.protocol == "classic" else None,
        "groupEpoch": None if before.protocol == "classic" else before.number,
        "timestamp": before.timestamp,
        "names": before.names | {member_id: names[member_id] for member_id in added},
        "added": added,
        "removed": [member.member_id for member in before.members if member.member_id not in remaining_ids],
        "partitions": {name: topic.partitions for name, topic in sorted(after.topics.items())},
        "inexact": [*before.unknown, *change.notes],
        "answers": [_outlook_document(preview, chosen=preview is chosen) for preview in previews],
    }


def _outlook_document(preview: Preview, *, chosen: bool) -> dict[str, Any]:
    document = {**preview.way._asdict(), "own": preview.own, "chosen": chosen}
    if preview.problem is not None:
        return {**document, "problem": preview.problem}
    return {
        **document,
        "rounds": preview.rounds,
        "roundsExact": preview.exact_rounds,
        "moved": preview.moved,
        "given": preview.newly_assigned,
        "unowned": preview.unowned,
        "most": preview.most,
        "least": preview.least,
        "rackLocal": preview.rack_local_counts[0] if preview.rack_local_counts[1] else None,
        "rackKnown": preview.rack_local_counts[1],
        "inexact": list(preview.inexact),
        "assignment": {member: as_lists(share) for member, share in preview.assignment.items()},
    }
