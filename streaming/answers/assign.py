"""``assign``: one group a line, one assignment a line; with reasons, or under several assignors side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from assignors import registry
from assignors.diff import as_lists, diff, moved, size
from assignors.errors import MonitorError
from assignors.explain import explain
from assignors.model import Assignment, Share
from streaming.answers.groups import Question, parse
from streaming.answers.lines import LineAnswer, error_answer

#: Side by side in ``--compare``, in the order of Kafka's documentation.
COMPARED = ("range", "roundrobin", "sticky", "cooperative-sticky")


def answering(*, compared: bool, explained: bool) -> LineAnswer:
    """What answers a line: :func:`compare`, or :func:`answer` with or without reasons."""
    return compare if compared else partial(answer, explained=explained)


def compute(question: Question, assignor: str) -> Assignment:
    """What ``assignor`` of the question's protocol answers.

    Raises:
        MonitorError: there is no such assignor, or the group contradicts itself.
    """
    chosen = registry.find(question.protocol, assignor)
    if question.protocol == "zookeeper" and question.kafka_version is not None:
        # Only the old consumer changed its rules from version to version.
        return chosen.assign(question.topics, question.members, kafka_version=question.kafka_version)  # type: ignore[call-arg] # theirs alone takes it
    return chosen.assign(question.topics, question.members)


def answer(data: bytes, *, explained: bool = False) -> dict[str, Any]:
    """The answer to one line: ``assignment``, and with ``explained`` each member's change and its reasons."""
    question = parse(data)
    assignor = question.named_assignor()
    assignment = compute(question, assignor)
    found: dict[str, Any] = {"assignment": {member: as_lists(share) for member, share in assignment.items()}}
    if explained:
        reasons = explain(question.protocol, assignor, question.topics, question.members, assignment)
        found["members"] = {member: _wire(asdict(reason)) for member, reason in reasons.items()}
    return found


def _wire(reason: dict[str, Any]) -> dict[str, Any]:
    reason["decisions"] = list(reason["decisions"])
    return reason


def compare(data: bytes) -> dict[str, Any]:
    """The same group under each client-side assignor, and what each would move.

    ``{"compared": {assignor: {"assignment", "revoked", "assigned", "kept", "moved", "most", "least"}}}``; an
    assignor that can't answer has its ``error`` there.
    """
    question = parse(data)
    answers: dict[str, Any] = {}
    for assignor in COMPARED if question.protocol == "classic" else registry.names(question.protocol):
        try:
            assignment = compute(question, assignor)
        except MonitorError as error:
            answers[assignor] = error_answer(error)
            continue
        answers[assignor] = _compared(question, assignment)
    if not answers:
        registry.find(question.protocol, "")  # says which protocols there are
    return {"compared": answers}


def _compared(question: Question, assignment: Assignment) -> dict[str, Any]:
    owned: dict[str, Share] = {member.member_id: member.owned for member in question.members}
    changes = [diff(_ascending(owned.get(m, {})), _ascending(share)) for m, share in assignment.items()]
    sizes = [size(share) for share in assignment.values()]
    return {
        "assignment": {member: as_lists(share) for member, share in assignment.items()},
        "revoked": sum(size(change.revoked) for change in changes),
        "assigned": sum(size(change.assigned) for change in changes),
        "kept": sum(size(change.kept) for change in changes),
        "moved": moved(owned, assignment),
        "most": max(sizes, default=0),
        "least": min(sizes, default=0),
    }


def _ascending(share: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    return {name: sorted(partitions) for name, partitions in share.items()}
