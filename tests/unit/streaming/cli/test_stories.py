"""``watch --stories`` prints each changed episode before its diffs; without the topic of episodes, only diffs."""

import re
import threading

import pytest

from streaming.cli import stories
from streaming.cli.stories import FreshnessWarnings, StoryFollower, time_ago
from streaming.freshness import Freshness, Lateness
from streaming.records.codec import encode
from streaming.records.episodes import key
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from tests.support.compacted import EPISODES, checkout_group, episode_records, episode_updates
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command, publish_diffs, stopped_when

DIFFS = "rebalance.diffs"
GROUP = "team/checkout"
SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))
WATCH_ARGS = ("watch", "--stories", "--from-beginning", "--exit-at-end")


@pytest.fixture
def diffs(kafka: MemoryKafka) -> MemoryKafka:
    """Return a cluster with the diffs of two episodes."""
    kafka.create(DIFFS, 1)
    publish_diffs(kafka, checkout_group())
    return kafka


@pytest.fixture
def both(diffs: MemoryKafka) -> MemoryKafka:
    """Return the cluster with these diffs and with every update of the two episodes."""
    diffs.create(EPISODES, 1)
    for episode in episode_updates(checkout_group()):
        diffs.append(EPISODES, encode(episode), key=key(GROUP, episode.episode))
    return diffs


def heads(out: str) -> list[str]:
    """Return the lines of output that begin with a time of day, without this time."""
    return [line.split(" ", 1)[1] for line in out.splitlines() if re.match(r"\d\d:\d\d:\d\d ", line)]


def printed_lines() -> list[str]:
    """Return the group's story lines in order; an episode that closes without a change gets no further line."""
    lines = [f"{GROUP}  {episode.status}  {episode.story}" for episode in episode_updates(checkout_group())]
    return list(dict.fromkeys(lines))


def test_changed_stories_are_printed_above_their_diffs(command: Command, both: MemoryKafka) -> None:
    status, out, errors = command(*WATCH_ARGS)
    assert (status, errors) == (0, "")
    wanted, lines = printed_lines(), heads(out)
    assert lines[: len(wanted)] == wanted
    assert [head.startswith(f"{GROUP} generation") for head in lines[len(wanted) :]] == [True] * 5
    again = command("watch", "--from-beginning", "--exit-at-end")[1]
    assert out.endswith(again)


def test_unchanged_stories_are_not_printed(command: Command, both: MemoryKafka) -> None:
    before = heads(command(*WATCH_ARGS)[1])
    last = episode_records(checkout_group())[-1]
    both.append(EPISODES, last.value, key=key(GROUP, last.episode.episode))
    both.append(EPISODES, None, key=key(GROUP, last.episode.episode))
    assert heads(command(*WATCH_ARGS)[1]) == before


def test_json_has_episodes_as_in_the_topic_and_diffs(command: Command, both: MemoryKafka) -> None:
    plain = command("watch", "--from-beginning", "--exit-at-end", "--json")[1]
    status, out, _ = command(*WATCH_ARGS, "--json")
    assert status == 0
    values = "".join(f"{(message.value() or b'').decode()}\n" for message in both.records(EPISODES))
    assert out == values + plain


def test_other_groups_are_left_out(command: Command, both: MemoryKafka) -> None:
    assert command(*WATCH_ARGS, "--group", "team") == (0, "", "")
    assert len(heads(command(*WATCH_ARGS, "--group", GROUP)[1])) == len(printed_lines()) + 5


def test_malformed_episodes_are_reported_and_skipped(command: Command, both: MemoryKafka) -> None:
    both.append(EPISODES, b"{", key=b"x/1")
    status, out, errors = command(*WATCH_ARGS)
    assert (status, errors.count("\n")) == (0, 1)
    assert errors.startswith("skipped: rebalance.episodes partition 0 offset ")
    assert len(heads(out)) == len(printed_lines()) + 5


@pytest.mark.parametrize("case", ["missing", "denied"])
def test_diffs_are_printed_if_stories_are_unreadable(command: Command, diffs: MemoryKafka, case: str) -> None:
    if case == "denied":
        diffs.create(EPISODES, 1)
        diffs.deny(EPISODES, "DESCRIBE", "READ")
    status, out, errors = command(*WATCH_ARGS, "--json")
    assert (status, len(out.splitlines())) == (0, 5)
    assert errors.startswith("no stories: ")
    assert (EPISODES in errors, errors.count("\n")) == (True, 1)


def test_diffs_are_shown_while_the_episode_topic_is_missing(command: Command, diffs: MemoryKafka) -> None:
    with stopped_when(lambda: any((DIFFS, 0) in consumer.reported_ends for consumer in diffs.consumers)):
        status, out, errors = command("watch", "--stories", "--from-beginning", "--json")
    assert (status, len(out.splitlines())) == (0, 5)
    assert f"topic {EPISODES} does not exist yet: waiting for it" in errors


def test_story_published_with_a_diff_is_printed_above_it(
    both: MemoryKafka, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stories, "_STORY_WAIT_SECONDS", 30.0)  # the next event ends the wait
    first, last = episode_updates(checkout_group())[0], episode_updates(checkout_group())[-1]
    with StoryFollower(
        SETTINGS, as_json=False, group=None, from_beginning=False, follow=True, stopped=lambda: False
    ) as builder:
        builder.poll(0.0)

        def later() -> None:
            for episode in (first, last):
                both.append(EPISODES, encode(episode), key=key(GROUP, episode.episode))

        timer = threading.Timer(0.05, later)
        timer.start()
        shown = []
        for record in builder.with_stories(["a diff", "another"]):
            shown.append(record)
            if record == "a diff":
                assert first.story in capsys.readouterr().out  # the second episode is printed without a wait
        timer.join()
    assert shown == ["a diff", "another"]


OUTDATED_SINCE_SECONDS = 1_700_000_000
SILENT_COLLECTOR = Freshness(
    late=Lateness("collector-silent", "No heartbeat from collector \x1bc", OUTDATED_SINCE_SECONDS * 1000)
)
FRESHNESS_WITHOUT_KAFKA = Freshness(
    is_known=False, late=Lateness("kafka-unreachable", "No contact with Kafka", OUTDATED_SINCE_SECONDS * 1000)
)
UNKNOWN_FRESHNESS = Freshness(is_known=False)


def test_each_freshness_change_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    freshness = Freshness()
    warnings = FreshnessWarnings(lambda _: freshness)
    printed_lines = []
    states = (
        Freshness(),
        UNKNOWN_FRESHNESS,
        SILENT_COLLECTOR,
        SILENT_COLLECTOR,
        UNKNOWN_FRESHNESS,
        SILENT_COLLECTOR,
        FRESHNESS_WITHOUT_KAFKA,
        UNKNOWN_FRESHNESS,
        Freshness(),
        Freshness(),
    )
    for number, freshness in enumerate(states):  # noqa: B007 - the function's result
        warnings.poll(2.0 * number, OUTDATED_SINCE_SECONDS + 130)
        printed_lines += capsys.readouterr().err.splitlines()
    assert [re.sub(r"\d\d:\d\d:\d\d", "<time>", line) for line in printed_lines] == [
        r"No heartbeat from collector \x1bc since <time> (2 min ago): groups may have changed since",
        "No contact with Kafka since <time> (2 min ago): groups may have changed since",
        "All components of the monitor send heartbeats again and are up to date",
    ]


def test_freshness_is_checked_once_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    check_times = []
    warnings = FreshnessWarnings(lambda now: (check_times.append(now), Freshness())[1])
    for moment in (5.0, 5.1, 5.9, 6.0, 6.5):
        warnings.poll(moment, OUTDATED_SINCE_SECONDS)
    assert check_times == [5.0, 6.0]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s ago"), (59.9, "59 s ago"), (60, "1 min ago"), (3599, "59 min ago"), (7300, "2 h ago"), (2e5, "2 d ago")],
)
def test_ages_are_rounded_down(seconds: float, text: str) -> None:
    assert time_ago(seconds) == text
