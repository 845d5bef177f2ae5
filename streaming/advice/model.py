"""Types of advice: the finding of a rule, its evidence, the recommended change and the saving by that change."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from msgspec import field

from streaming.episodes.story import listed
from streaming.records.episodes import Bounds, Episode
from streaming.records.events import Wire

Severity = Literal["info", "warning", "critical"]
Confidence = Literal["low", "medium", "high"]
#: Severities of advice, from the least to the most severe.
SEVERITIES: Final = ("info", "warning", "critical")
_MAX_LISTED_FACTS: Final = 5
#: The document of a scenario file.
Document = dict[str, Any]


class AdviceEvidence(Wire, frozen=True):
    """One fact that supports advice: a sentence, the numbers of the episodes behind it, and its figures by name."""

    text: str
    episodes: list[int] = field(default_factory=list)
    figures: dict[str, int | str | list[str]] = field(default_factory=dict)


class CostSaving(Wire, frozen=True):
    """Saving by a change, computed from replayed episodes; pairs of figures are ``[as it was, with the change]``.

    ``episodes``: numbers of the replayed episodes. ``downtimeMs``: downtime summed over all partitions;
    ``downtimeRangeMs``: each of them as ``[lower, upper]``, by how fast members react; null for large groups.
    ``measuredMs`` and ``delayedMessages``: measured values of the same episodes; null if there are none.
    """

    text: str
    episodes: list[int] = field(default_factory=list)
    rounds: tuple[int, int] | None = None
    moved: tuple[int, int] | None = None
    downtime_ms: tuple[int, int] | None = None
    downtime_range_ms: tuple[tuple[int, int], tuple[int, int]] | None = None
    measured_ms: Bounds | None = None
    delayed_messages: Bounds | None = None


class Advice(Wire, frozen=True):
    """Advice of one rule for one group.

    ``settings``: the change as options of ``client``; empty if it can't be made by an option. ``unsure``: claims that
    are not proven. ``episodes``: all episodes in the evidence. ``docs``: the rule's section in the documentation.
    """

    rule: str
    group_id: str
    severity: Severity
    evidence: list[AdviceEvidence]
    change: str
    saving: CostSaving | None
    confidence: Confidence
    title: str = ""
    client: str = ""
    settings: dict[str, str] = field(default_factory=dict)
    unsure: list[str] = field(default_factory=list)
    episodes: list[int] = field(default_factory=list)
    docs: str = ""


class Replay(NamedTuple):
    """Past episodes, newest first, to simulate with a change.

    ``way``: way to rebalance, ``cooperative``, ``static`` or ``consumer``; None: the group's own way. ``edit``: name of
    a change of the scenario in ``_SCENARIO_EDITS`` of :mod:`streaming.advice.replay`, with the argument ``value``.
    """

    episodes: Sequence[Episode]
    way: str | None = None
    edit: str | None = None
    value: int = 0


class Finding(NamedTuple):
    """A problem that a rule found. ``settings``: options of Kafka's Java consumer. ``unsure``: claims without proof."""

    severity: Severity
    evidence: Sequence[AdviceEvidence]
    change: str
    settings: Mapping[str, str] = MappingProxyType({})
    replay: Replay | None = None
    saving: CostSaving | None = None
    unsure: tuple[str, ...] = ()
    confidence: Confidence | None = None


def make_evidence(text: str, episodes: Iterable[Episode] = (), **figures: int | str | list[str]) -> AdviceEvidence:
    """Return an item of evidence: a sentence, with the episodes and figures that it states."""
    numbers = sorted({episode.episode for episode in episodes}, reverse=True)
    return AdviceEvidence(text=text, episodes=numbers, figures=figures)


def list_text(episodes: Sequence[Episode]) -> str:
    """Return the numbers of episodes as text, such as ``episode 17`` or ``episodes 17, 12, 9 and 4 more``."""
    numbers = listed((str(episode.episode) for episode in episodes), _MAX_LISTED_FACTS)
    return f"episode{'s' if len(episodes) > 1 else ''} {numbers}"
