"""Advice for one group and for all groups, and the measured effect of applied advice."""

from pathlib import Path

import pytest
from msgspec import structs

from streaming.advice.model import Advice
from streaming.advice.replay import Budget
from streaming.advice.rules import FILE_RULES, RULES, advise, advise_all, episodes_to_read, reaches_severity
from streaming.records.diffs import MemberNames
from streaming.records.episodes import Bounds, Downtime, EpisodeMembers
from tests.support.advice import deploy, evidence, history, rules
from tests.support.built_diffs import DiffBuilder

DAY_MS = 86_400_000


def group_with_ten_members(group_id: str = "g") -> DiffBuilder:
    return DiffBuilder(60, group_id).join(*[f"pay-{number}@h{number}#1" for number in range(10)])


@pytest.mark.parametrize("client", ["consumer-g-{0}", "rdkafka", "kafka-python-3.0.12", "aiokafka-0.12.0", "pay-{0}"])
@pytest.mark.parametrize(
    ("protocol", "assignor", "instance"),
    [
        ("classic", "range", ""),
        ("classic", "cooperative-sticky", ""),
        ("classic", "sticky", "=i{0}"),
        ("consumer", "uniform", ""),
        ("consumer", "uniform", "=i{0}"),
    ],
)
def test_healthy_groups_get_no_advice_above_info(client: str, protocol: str, assignor: str, instance: str) -> None:
    """A group whose members restart quickly in two deploys gets no advice above the severity ``info``."""
    builder = DiffBuilder(60)
    builder.protocol, builder.assignor = protocol, assignor
    builder.join(*[f"{client}@h{{0}}#1{instance}".format(number) for number in range(10)])
    advice = advise(history(deploy(deploy(builder)), session_ms=45_000, poll_ms=300_000, downtime_ms=3000))
    assert not reaches_severity(advice, "warning")


def test_advice_looks_back_thirty_days() -> None:
    builder = deploy(group_with_ten_members())
    now = builder.now + 30 * DAY_MS
    assert advise(history(builder, now_ms=now)) == []
    assert episodes_to_read(history(builder).episodes, now) == []
    assert [record.episode for record in episodes_to_read(history(builder).episodes, builder.now)] == [2]


def test_the_worst_group_comes_first() -> None:
    quiet, small = group_with_ten_members("quiet"), deploy(group_with_ten_members("small"))
    large = deploy(deploy(group_with_ten_members("large")))
    advice = advise_all([history(quiet), history(small), history(large, downtime_ms=20_000)])
    assert [(item.group_id, item.severity) for item in advice][:2] == [("large", "warning"), ("large", "info")]
    assert {item.group_id for item in advice} == {"large", "small"}
    assert advice[-1].group_id == "small"
    assert reaches_severity(advice, "warning")
    assert not reaches_severity(advice, "critical")


def test_advice_beyond_the_work_budget_has_no_saving() -> None:
    """A replay of ten restarts of ten members costs 140 units; it takes four with the change and four without it."""
    histories = [
        history(deploy(group_with_ten_members(name)), downtime_ms=ms) for name, ms in (("a", 1000), ("b", 9000))
    ]
    advice = advise_all(histories, Budget(work=1200))
    savings = {(item.group_id, item.rule): item.saving for item in advice}
    assert savings["a", "cooperative-assignor"] is None
    assert savings["b", "cooperative-assignor"] is not None


BEFORE = Downtime(lower_ms=48_000, upper_ms=60_000, total_ms=(48_000, 60_000))


def applied(protocol: str, assignor: str, downtime: Bounds) -> dict[str, Advice]:
    """Return the advice after a deploy with a measured downtime, a change of protocol, and a second deploy."""
    builder = deploy(group_with_ten_members())
    builder.protocol, builder.assignor = protocol, assignor
    first, before, after = history(deploy(builder)).episodes
    now = Downtime(lower_ms=downtime[0], upper_ms=downtime[1], total_ms=downtime)
    episodes = [
        first,
        structs.replace(before, downtime=BEFORE),
        structs.replace(after, downtime=now, kind="rolling-restart"),
    ]
    return rules(history(builder, episodes=episodes))


def test_cooperative_deploys_show_the_measured_saving() -> None:
    advice = applied("classic", "cooperative-sticky", (6000, 7000))["cooperative-assignor/applied"]
    assert (advice.severity, advice.confidence) == ("info", "high")
    assert advice.evidence == evidence(
        "cooperative since 2023-11-15 00:19 UTC: 6.0 s to 7.0 s instead of 48 s to 60 s "
        "a deploy, all partitions together (forecast: 6 min); 1 deploy before (episode 2), 1 after (episode 3)",
        3,
        2,
        beforeMs=48_000,
        afterMs=6000,
    )
    assert advice.change == "Nothing: it helped"
    assert advice.docs == "docs/reference/advice.md#cooperative-assignor"


def test_overlapping_downtime_bounds_give_unproven_advice() -> None:
    advice = applied("consumer", "uniform", (6000, None))["consumer-protocol/applied"]
    assert (advice.severity, advice.confidence) == ("info", "low")
    assert advice.change == "Nothing: the bounds overlap, so no gain is proven yet"


def test_static_deploys_show_the_measured_saving() -> None:
    builder = deploy(group_with_ten_members())
    first, before, _ = history(deploy(builder)).episodes
    names = {"a": MemberNames(client_id="a", group_instance_id="a")}
    deploy_episode = structs.replace(
        before, episode=3, kind="static-bounce", rebalances=0, downtime=None, members=EpisodeMembers(names=names)
    )
    episodes = [first, structs.replace(before, downtime=BEFORE), deploy_episode]
    advice = rules(history(builder, episodes=episodes))["static-membership/applied"]
    assert advice.evidence[0].figures == {"beforeMs": 48_000, "afterMs": 0}
    assert advice.change == "Nothing: it helped"


def test_every_rule_has_a_section_in_the_docs() -> None:
    text = (Path(__file__).parents[4] / "docs/reference/advice.md").read_text()
    sections = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert [section for section in sections if section in RULES or section in FILE_RULES] == [*RULES, *FILE_RULES]
