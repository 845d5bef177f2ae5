"""Forecasts as JSON values (``simulate --json``) and as the rows of a comparison."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from assignors.diff import ShareDiff, as_lists
from assignors.model import Share
from streaming.simulate.ledger import ForecastRound
from streaming.simulate.run import Forecast


def document(forecasts: Iterable[Forecast]) -> dict[str, Any]:
    """The answer of ``simulate --json``."""
    return {"protocols": {one.protocol: protocol(one) for one in forecasts}}


def protocol(forecast: Forecast) -> dict[str, Any]:
    """One protocol's part of the answer; times in ms since the scenario's start."""
    ledger = forecast.ledger
    number = "groupEpoch" if forecast.protocol == "consumer" else "generation"
    unchanged: dict[int, dict[str, Any]] = {}
    return {
        "rounds": [_round(record, number, unchanged) for record in ledger.rounds],
        "requests": dict(sorted(ledger.requests.items())),
        "rebalances": ledger.rebalances,
        "moved": ledger.moved,
        "unavailableMs": {
            topic: {str(partition): ms for partition, ms in enumerate(partitions)}
            for topic, partitions in sorted(ledger.gaps.total.items())
        },
        "longestGapMs": ledger.gaps.longest,
    }


def _round(record: ForecastRound, number: str, unchanged: dict[int, dict[str, Any]]) -> dict[str, Any]:
    return {
        "at": record.at,
        number: record.number,
        "round": record.round,
        "cause": {"kind": record.reason.kind, "memberIds": list(record.reason.members)},
        "members": {name: _member(owned, change, unchanged) for name, owned, change in record.members()},
    }


def _member(owned: Share, change: ShareDiff | None, unchanged: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """One member in one round: kept = owned − revoked, after = kept + assigned.

    Most shares stay as they are through most rounds: one value serves them all, by identity (the ledger keeps the
    shares alive).
    """
    if change is not None:
        lists = as_lists(owned)
        return {"owned": lists, "revoked": change.revoked, "assigned": change.assigned, "kept": change.kept}
    known = unchanged.get(id(owned))
    if known is None:
        lists = as_lists(owned)
        known = unchanged[id(owned)] = {"owned": lists, "revoked": {}, "assigned": {}, "kept": lists}
    return known


class ForecastSummary(NamedTuple):
    """A row of the comparison."""

    protocol: str
    assignor: str
    rebalances: int
    rounds: int
    requests: int
    moved: int
    unavailable_s: float
    longest_gap_s: float
    end_s: float


def summary(forecast: Forecast) -> ForecastSummary:
    """One protocol in figures; ``unavailable_s`` counts partition-seconds without an owner."""
    ledger = forecast.ledger
    return ForecastSummary(
        forecast.protocol,
        forecast.assignor,
        ledger.rebalances,
        ledger.round_count,
        sum(ledger.requests.values()),
        ledger.moved,
        sum(sum(partitions) for partitions in ledger.gaps.total.values()) / 1000,
        ledger.gaps.longest / 1000,
        forecast.end / 1000,
    )
