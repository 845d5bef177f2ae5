"""Diffs that need not repeat who kept everything: whom a round names, and how many others there are.

A diff leaves out members that are in the group before and after its round and own what they owned. Put together
with what was owned before (:mod:`streaming.wire.owners`) it says as much as one that names everybody: so it also
names, with nothing to give or to take, who has another id since the diff before, or is called otherwise. The first
diff of a group names everybody, as does one that would leave nobody out.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Raw, structs

from streaming.monitor import once
from streaming.monitor.rendering import DiffOutput, Output
from streaming.monitor.state import GroupState, MemberState, Said
from streaming.wire.diffs import MemberDiff, told_once

#: Whom diffs name: everybody; those for whom something changed; or these, of groups whose collector tells changes,
#: and everybody of all others.
Naming = Literal["auto", "all", "changed"]
#: One in so many of a large group's members is named by diffs before its latest assignment is written again.
_SHARE: Final = 8
_members = msgspec.json.Decoder(dict[str, MemberDiff])


def shorten(
    before: GroupState | None, after: GroupState, outputs: Sequence[Output], naming: Naming, others: int = 0
) -> tuple[GroupState, tuple[Output, ...]]:
    """What an event gave, its diffs without who kept everything; the group knows how far they have told of it.

    Of a group whose changes are told the latest assignment is as long as many of its diffs: it is left out until
    these have named enough members since the last one.

    Args:
        before: the group before the event; None when nothing was known of it.
        after: the group after it.
        outputs: what it gave, in order; diffs with everybody.
        naming: whom diffs name.
        others: how many members the group has beside those of ``before`` and ``after``: nothing of them changed.
    """
    if naming == "all" or (naming == "auto" and after.view is None):
        return (after if after.said is None else structs.replace(after, said=None)), tuple(outputs)
    said = None if before is None else before.said
    past: Sequence[MemberState] = () if before is None else before.members
    cause = None if before is None else before.cause
    followed = after.view is not None
    found: list[Output] = []
    for output in outputs:
        if isinstance(output, DiffOutput):
            shown = output
            if said is not None and before is not None:
                shown = _named(output, past, before, said, others)
                if followed and shown.members is not None:
                    shown = once.sparing(shown, shown.members, cause, said.unassigned)
            found.append(shown)
            past, cause = output.decided.members, output.decided.cause
            said = Said(output.id, unassigned=told_once(output.changes.unassigned) if followed else {})
        else:
            found.append(
                output if said is None else once.beginning(output, said, cause if followed else None)
            )
    if said is not None and past is not after.members:
        said = _learned(said, past, after.members, others)
    if after.view is not None and said is not None:
        said, found = _delayed(before, said, found, others + len(after.members))
    return structs.replace(after, said=said), tuple(found)


def _delayed(
    before: GroupState | None, said: Said, outputs: list[Output], size: int
) -> tuple[Said, list[Output]]:
    """What is written of a group of so many members whose assignment need not be written each time."""
    known = None if before is None else before.said
    # To be called otherwise is nothing that diffs tell at once.
    named = sum(len(one.named) if isinstance(one, DiffOutput) else 1 for one in outputs)
    unsaid = named + (0 if known is None else known.unsaid)
    if known is None or unsaid * _SHARE >= size:
        return said, outputs
    return structs.replace(said, unsaid=unsaid), [one for one in outputs if isinstance(one, DiffOutput)]


def _named(
    output: DiffOutput, past: Sequence[MemberState], before: GroupState, said: Said, others: int
) -> DiffOutput:
    """The diff without members for whom nothing has changed; the diff itself, where there are none."""
    whole = output.changes.members
    members = _members.decode(whole) if isinstance(whole, Raw) else whole
    known = {member.member_id: _names(member) for member in past}
    named = {
        member_id: one
        for member_id, one in members.items()
        if one.revoked
        or one.assigned
        or not one.present
        or member_id in said.called
        or known.get(member_id) != (one.client_id, one.client_host, one.group_instance_id)
        or one.standby != before.standby.get(member_id, UNSET)
        or one.warmup != before.warmup.get(member_id, UNSET)
    }
    # Who was there is in a round under the id that it has now.
    renamed = _composed(said.renamed, _returned(past, output.decided.members, members))
    named.update((new, members[new]) for new in renamed.values() if new in members)
    left = len(members) - len(named) + others
    if not left:
        return output
    return structs.replace(output, members=named, unchanged=left, renamed=renamed or UNSET)


def _learned(
    said: Said, past: Sequence[MemberState], members: Sequence[MemberState], others: int
) -> Said | None:
    """What the next diff names whatever it changes, after an event without one; None: everybody."""
    known = {member.member_id: _names(member) for member in past}
    here = {member.member_id: _names(member) for member in members}
    step = _returned(past, members, here)
    if {step.get(one, one) for one in known} != here.keys():
        return None
    renamed = _composed(said.renamed, step)
    called = dict.fromkeys((*said.called, *(one for one in here if known.get(one, here[one]) != here[one])))
    # Where it would name as many as there are, it may as well name everybody.
    short = len(renamed) + len(called) < len(here) + others
    return structs.replace(said, renamed=renamed, called=tuple(called)) if short else None


def _returned(
    past: Iterable[MemberState], members: Iterable[MemberState], here: Container[str]
) -> dict[str, str]:
    """Static members that have another id now: old id → new id. ``here``: the ids that are spoken of now."""
    gone = {one.instance_id: one.member_id for one in past if one.instance_id and one.member_id not in here}
    return {gone[one.instance_id]: one.member_id for one in members if one.instance_id in gone}


def _composed(renamed: Mapping[str, str], step: Mapping[str, str]) -> dict[str, str]:
    """Both, one after the other; an id in between is an old one as well, as latest assignments may have it."""
    whole = {old: step.get(new, new) for old, new in renamed.items()} | {**step}
    return {old: new for old, new in whole.items() if old != new}


def _names(member: MemberState) -> tuple[str | None, ...]:
    return member.client_id, member.client_host, member.instance_id
