"""Advice that is followed: the same deploy of a real group before and after the change, with its measured downtime."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Final, NamedTuple

from benchmarks._document import BENCHMARKS_PAGE
from streaming.advice.model import Advice
from streaming.advice.rules import advise
from tests.acceptance.advice.advised_group import LateConnect, Play, group_history
from tests.acceptance.advice.cases import write_csv
from tests.acceptance.advice.faults import FOUR_NAMES, start_workers
from tests.acceptance.situations.applications import Connect
from tests.acceptance.situations.groups import AppliedChange, AppliedChanges
from tests.acceptance.situations.member_kind import MemberKind
from tests.acceptance.situations.operations import begin, end, pods
from tests.acceptance.situations.real_group import RealGroup, Step
from tests.acceptance.situations.scenarios import EAGER
from tests.acceptance.situations.stage import LOG, RECORD_MS
from tests.support.wait import eventually

#: The measured savings of one run, beside the page about the rules.
TABLE: Final = BENCHMARKS_PAGE.with_name("reference") / "advice-savings.csv"
#: Kafka's defaults, in place of the short times of other tests.
PROPERTIES: Final = {
    "group.initial.rebalance.delay.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.session.timeout.ms": "45000",
}
_SIX_NAMES: Final = tuple("abcdef")
#: Clients with the default heartbeat interval, and a session timeout that is short enough for a test.
_USUAL_CLIENT: Final = replace(EAGER, heartbeat_ms=3000, session_ms=10_000, poll_ms=300_000)
_COOPERATIVE: Final = replace(_USUAL_CLIENT, protocol="cooperative")
_CONSUMER: Final = replace(_USUAL_CLIENT, protocol="consumer")
_STATIC_CLIENT: Final = replace(_USUAL_CLIENT, static=True)
#: Seconds for which a member is down in a deploy: more than a heartbeat interval, less than a session.
_DOWN_S: Final = 4.0
#: Seconds between the kill of a pod and the start of its successor.
_START_PAUSE_S: Final = 1.0
#: Seconds for which a static member is away, more than its session timeout.
_AWAY_S: Final = 9.0
_Bounds = tuple[int, int]


class DeployCost(NamedTuple):
    """Measured downtime of a deploy, summed over all partitions, as bounds (ms), and the number of its rebalances."""

    downtime_ms: _Bounds
    rebalances: int


class Outcome(NamedTuple):
    """The advice for a group, and the deploys measured before and after the recommended change.

    ``applied``: the advice afterwards that compares the deploys before and after the change, if there is one.
    """

    advice: Advice
    before: DeployCost
    after: DeployCost
    applied: Advice | None = None

    @property
    def saved_ms(self) -> _Bounds:
        """Bounds of the downtime (ms) that the change saved, as measured."""
        return _difference(self.before.downtime_ms, self.after.downtime_ms)

    @property
    def advised_saving_ms(self) -> _Bounds | None:
        """Bounds of the saving that the advice states; None if it states none."""
        saving = self.advice.saving
        if saving is None or saving.downtime_range_ms is None:
            return None
        return _difference(*saving.downtime_range_ms)


def _difference(before: _Bounds, after: _Bounds) -> _Bounds:
    return before[0] - after[1], before[1] - after[0]


def overlaps(first: _Bounds, second: _Bounds) -> bool:
    """Return true if two ranges have a value in common."""
    return first[0] <= second[1] and second[0] <= first[1]


def measure(group: RealGroup, *steps: Step) -> DeployCost:
    """Return the measured downtime and the rebalances of a group of Java consumers during these changes.

    A gap between the records of two holders of a partition begins up to a record interval after the last record.
    """
    _await_consumption(group)
    gaps = []
    for step in steps:
        later = [each.at for each in group.steps if each.at > step.at]
        until = min(later, default=time.time_ns() // 1_000_000)
        played = AppliedChanges(group.group_id, group.marks, [AppliedChange(step.kind, step.at)])
        gaps += [gap for gap in played.gaps() if step.at - RECORD_MS < gap.start and gap.end < until]
    total = sum(gap.end - gap.start for gap in gaps)
    rebalances = sum(episode.rebalances for step in steps for episode in step.episodes[LOG])
    return DeployCost((max(total - len(gaps) * RECORD_MS, 0), total), rebalances)


def _await_consumption(group: RealGroup) -> None:
    """Wait until all partitions have been consumed since this call, so that no gap is open."""
    now = time.time_ns() // 1_000_000
    played = AppliedChanges(group.group_id, group.marks)

    def has_consumed_all() -> bool:
        return len({mark.partition for mark in played.marks() if mark.at >= now}) == sum(group.topics.values())

    eventually(has_consumed_all, every=0.2)


def _pause(seconds: float) -> None:
    due = monotonic() + seconds
    eventually(lambda: monotonic() >= due)


def restart_one_after_another(group: RealGroup, parallel: int = 1, names: tuple[str, ...] = _SIX_NAMES) -> None:
    with group.step("static-bounce" if group.member_kind.static else "rolling-restart", rejoined=names):
        for first in range(0, len(names), parallel):
            batch = names[first : first + parallel]
            group.stop(*batch)
            _pause(_DOWN_S)
            group.start(*batch)
            group.whole()


def replace_pods(group: RealGroup, *, is_killed: bool) -> None:
    """Replace the pods of a Deployment one after the other."""
    rollout = next(number for number in range(9) if pods(number)[0] in group.subscribed)
    with group.step("crash" if is_killed else "rolling-restart", rejoined=pods(rollout + 1)):
        for old, new in zip(pods(rollout), pods(rollout + 1), strict=True):
            (group.crash if is_killed else group.leave)(old)
            _pause(_START_PAUSE_S)
            group.start(new)
            group.whole()


def restart_with_long_pauses(group: RealGroup) -> None:
    """Restart a static member that is away for longer than its session timeout was at first."""
    with group.step("crash", rejoined=("b",)):
        group.stop("b")
        _pause(_AWAY_S)
        group.start("b")


def _remove_members(group: RealGroup, *, leaves: bool) -> None:
    with group.step("scale-in", left=("c",)):
        (group.leave if leaves else group.stop)("c")


def _restart_member(group: RealGroup, name: str) -> None:
    with group.step("scale-out", joined=(name,)):
        group.start(name)


def _start_members(group: RealGroup, *, has_staggered_starts: bool) -> None:
    with group.step("first-start", joined=FOUR_NAMES):
        for name in FOUR_NAMES:
            group.start(name)
            if has_staggered_starts:
                group.whole()


def _grow_group(group: RealGroup, *sizes: int) -> None:
    for partitions in sizes:
        with group.step("partition-growth"):
            group.grow(partitions)


def replace_with_kind(group: RealGroup, member_kind: MemberKind) -> None:
    """Restart all members with other settings, as a change of their own that is not measured."""
    names = tuple(group.subscribed)
    with group.step("assignor-change", rejoined=names):
        group.leave(*names)
        group.member_kind = member_kind
        group.start(*names)


def migrate(group: RealGroup) -> None:
    """Migrate to KIP-848, one member after the other; the restarts are not measured."""
    names = tuple(group.subscribed)
    with group.step("protocol-migration", rejoined=names):
        group.restart_one_by_one(*names, member_kind=_CONSUMER)
    group.member_kind = _CONSUMER


def _extend_session(group: RealGroup, advice: Advice) -> None:
    replace_with_kind(group, replace(group.member_kind, session_ms=int(advice.settings["session.timeout.ms"])))


def _keep_group(group: RealGroup, advice: Advice) -> None:
    """Apply no change: the next deploy of the trial contains the recommended change."""
    del group, advice


@dataclass(frozen=True)
class Trial:
    """A trial of advice: deploys of a group, the recommended change, and the same deploy after it.

    ``deploys``: number of deploys before the change, whose mean is compared.
    """

    rule: str
    member_kind: MemberKind
    names: tuple[str, ...]
    before: Callable[[RealGroup], None]
    follow: Callable[[RealGroup, Advice], None] = _keep_group
    after: Callable[[RealGroup], None] | None = None
    partitions: int = 6
    deploys: int = 1

    def run(self, group: RealGroup) -> Outcome:
        """Run a trial of advice: deploy, ask for advice, follow it, deploy again."""
        if self.names:
            begin(group, *self.names)
        start = len(group.steps)
        self.before(group)
        faulty = [step for step in group.steps[start:] if step.kind != "shutdown"]
        advice = _advice(group, self.rule)
        assert advice is not None, [(item.rule, item.evidence) for item in advise(group_history(group))]
        (least, most), rebalances = measure(group, *faulty)
        before = DeployCost((least // self.deploys, most // self.deploys), rebalances // self.deploys)
        self.follow(group, advice)
        start = len(group.steps)
        (self.after or self.before)(group)
        return Outcome(advice, before, measure(group, *group.steps[start:]), _advice(group, f"{self.rule}/applied"))


def _advice(group: RealGroup, rule: str) -> Advice | None:
    return next((advice for advice in advise(group_history(group)) if advice.rule == rule), None)


def restart_worker(group: RealGroup) -> Outcome:
    """Restart a Connect worker before and after its cluster has the scheduled delay that the advice recommends."""
    assert isinstance(group, Connect)
    start_workers(group)
    with group.step("connector-change"):
        group.set_task_count("one", 3)
    before = _restart_worker(group)
    advice = _advice(group, "scheduled-delay")
    assert advice is not None, [(step.kind, step.episodes[LOG]) for step in group.steps]
    group.delay_ms = int(advice.settings["scheduled.rebalance.max.delay.ms"])
    with group.step("restart", rejoined=("w1", "w2")):
        group.leave("w1", "w2")
        group.start("w1")
        group.whole()
        group.start("w2")
    return Outcome(advice, before, _restart_worker(group))


def _workers(group: Connect) -> set[str]:
    """Return the workers that run connectors and tasks by their statuses; an empty name until all of them run."""
    return {*group.owned()} or {""}


def _restart_worker(group: Connect) -> DeployCost:
    """Restart the worker w2, and return how long its connectors and tasks did not run."""
    lost = sum(map(len, group.owned().get("w2", {}).values()))
    with group.step("restart", rejoined=("w2",)):
        left = monotonic()
        group.leave("w2")
        stopped = monotonic()
        group.start("w2")
        group.whole()
        # Until the scheduled delay is over, Connect still reports tasks as running on the departed worker.
        wait_s = 2 * group.delay_ms / 1000
        eventually(lambda: _workers(group) <= group.subscribed.keys(), timeout=wait_s, every=0.2)
        running = monotonic()
    rebalances = sum(episode.rebalances for episode in group.steps[-1].episodes[LOG])
    return DeployCost((round((running - stopped) * 1000) * lost, round((running - left) * 1000) * lost), rebalances)


def _staggered_starts(group: RealGroup) -> None:
    _start_members(group, has_staggered_starts=True)
    end(group)
    _start_members(group, has_staggered_starts=True)


_ONE_BY_ONE: Final = partial(
    Trial, member_kind=_USUAL_CLIENT, names=_SIX_NAMES, before=restart_one_after_another, partitions=24
)
TRIALS: Final = (
    _ONE_BY_ONE("cooperative-assignor", follow=lambda group, _: replace_with_kind(group, _COOPERATIVE)),
    _ONE_BY_ONE("consumer-protocol", follow=lambda group, _: migrate(group)),
    _ONE_BY_ONE("static-membership", follow=lambda group, _: replace_with_kind(group, _STATIC_CLIENT)),
    _ONE_BY_ONE("rolling-batches", after=partial(restart_one_after_another, parallel=2)),
    Trial(
        "missing-leave",
        _USUAL_CLIENT,
        pods(0),
        partial(replace_pods, is_killed=True),
        after=partial(replace_pods, is_killed=False),
    ),
    Trial(
        "session-timeout-short",
        replace(_STATIC_CLIENT, session_ms=6000),
        ("a", "b", "c"),
        restart_with_long_pauses,
        _extend_session,
    ),
    Trial(
        "static-slot-held",
        _STATIC_CLIENT,
        ("a", "b", "c"),
        partial(_remove_members, leaves=False),
        lambda group, _: _restart_member(group, "c"),
        partial(_remove_members, leaves=True),
    ),
    Trial(
        "initial-delay",
        _USUAL_CLIENT,
        (),
        _staggered_starts,
        lambda group, _: end(group),
        partial(_start_members, has_staggered_starts=False),
        deploys=2,
    ),
    Trial(
        "metadata-rebalances",
        _USUAL_CLIENT,
        ("a", "b"),
        lambda group: _grow_group(group, 8, 10, 12),
        after=lambda group: _grow_group(group, 18),
    ),
)
DEPLOY_PLAYS: Final[Mapping[str, Play[Outcome]]] = {
    "scheduled-delay": Play(MemberKind("connect", "sessioned"), restart_worker, group_type=LateConnect),
    **{trial.rule: Play(trial.member_kind, trial.run, trial.partitions) for trial in TRIALS},
}


def write_table(outcomes: Mapping[str, Outcome]) -> None:
    """Write a line for each trial: forecast and measured downtime (ms) before and after, and the verdict."""
    forecast = ("forecast", "forecast_lower", "forecast_upper")
    header = (
        "rule",
        *(
            f"{name}_{time_label}"
            for time_label in ("before", "after")
            for name in (*forecast, "measured", "rebalances")
        ),
        "stated_saving",
        "measured_saving",
        "inside",
    )
    lines = []
    for rule, outcome in outcomes.items():
        saving, row = outcome.advice.saving, [rule]
        for place, deploy in enumerate((outcome.before, outcome.after)):
            usual = str(saving.downtime_ms[place]) if saving and saving.downtime_ms else ""
            limits = saving.downtime_range_ms[place] if saving and saving.downtime_range_ms else ("", "")
            row += [usual, *map(str, limits), _text(deploy.downtime_ms), str(deploy.rebalances)]
        stated_ms = outcome.advised_saving_ms
        inside = "" if stated_ms is None else "yes" if overlaps(stated_ms, outcome.saved_ms) else "no"
        lines.append([*row, "" if stated_ms is None else _text(stated_ms), _text(outcome.saved_ms), inside])
    write_csv(TABLE, header, lines, key=1)


def _text(limits: _Bounds) -> str:
    return f"{limits[0]} to {limits[1]}"
