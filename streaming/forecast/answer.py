"""What ``forecast`` answers: one change of a live group under every protocol, and what of it is only assumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from streaming.forecast import compare
from streaming.forecast.changes import Asked
from streaming.forecast.compare import Cost
from streaming.simulate.parse import scenario
from streaming.simulate.run import timing
from streaming.simulate.scenario import Scenario

#: So many rows, a member in a round, an answer lists; past it rounds are only counted.
MAX_ROWS: Final = 100_000
#: Rounds that an event leads to at most, in all ways together, as a rule of thumb for that limit.
_ROUNDS: Final = 10


class Answer(NamedTuple):
    """A change under each way; ``own`` is the group's, by its name. ``unsure``: why it can't be exact."""

    what: str
    own: str
    plan: Scenario
    costs: Sequence[Cost]
    sentence: str
    unsure: tuple[str, ...]


def played(asked: Asked, *, rounds: bool = True, each: Callable[[int], None] = lambda _: None) -> Answer:
    """A change played every way.

    Args:
        asked: the change.
        rounds: list the rounds, where they are not too many.
        each: told of every event that was played.

    Raises:
        InvalidScenario: the change can't happen to this group.
    """
    start, plan = asked.start, scenario(asked.document)
    few = len(plan.events) * _ROUNDS * max(len(plan.members), 1) <= MAX_ROWS
    costs = [
        compare.cost(plan, way, rounds=rounds and few, each=each)
        for way in compare.ways(start.protocol, start.assignor)
    ]
    said = compare.sentence(costs, start.way, asked.what)
    return Answer(
        asked.what,
        start.way,
        plan,
        costs,
        f"{said} {asked.measured}".strip(),
        (*start.unsure, _assumed(plan), *_raced(costs), *(() if few or not rounds else (_UNLISTED,))),
    )


_UNLISTED: Final = f"rounds are counted and not listed: there would be more than {MAX_ROWS} rows of them"


def _raced(costs: Sequence[Cost]) -> tuple[str, ...]:
    """Rounds that Kafka itself leaves to chance."""
    for one in costs:
        ledger = one.forecast.ledger
        if one.way.protocol == "cooperative" and ledger.round_count > ledger.rebalances:
            return (_RACED,)
    return ()


_RACED: Final = (
    "a cooperative rebalance takes a round more where a member asks for its share only after another that gave "
    "something up has joined again"
)


def _assumed(plan: Scenario) -> str:
    """What no record tells, whatever the group."""
    model = timing(plan)
    beats = (
        f"{model.heartbeat_ms} ms; under KIP-848 {timing(compare.of_brokers(plan)).consumer_heartbeat_ms} ms"
    )
    return (
        f"downtime depends on how often members heartbeat ({beats}) and how long they process what one poll gave "
        f"({model.processing_ms} ms), which no record tells: say it with --heartbeat, --processing"
    )


def document(group_id: str, answer: Answer) -> dict[str, Any]:
    """The answer for programs: ``protocols`` as ``simulate --json`` has them."""
    return {
        "groupId": group_id,
        "change": answer.what,
        "now": answer.own,
        "sentence": answer.sentence,
        "unsure": list(answer.unsure),
        "sessionTimeoutMs": answer.plan.session_timeout_ms,
        "rebalanceTimeoutMs": answer.plan.rebalance_timeout_ms,
        **compare.document(answer.costs),
    }
