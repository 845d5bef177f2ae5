"""The command ``report`` writes one offline HTML file about an episode or the cluster."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from streaming.kafka.group_reader import replay_sinks
from streaming.kafka.topics import ensure_topics
from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.records import codec
from streaming.records.codec import Record
from streaming.settings.config import Settings
from streaming.settings.connection import KafkaSettings
from tests.support.histories import Log
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))
HOSTILE_NAME = "c1<script>|`x`"


@pytest.fixture
def log(kafka: MemoryKafka) -> MemoryKafka:
    """Return a cluster whose topics contain the events of group ``pay`` and the stream's output for these events."""
    ensure_topics(SETTINGS)
    kafka.create(SETTINGS.topics.episodes)
    kafka.create(SETTINGS.topics.incidents)
    g, bucket, sinks = Log("pay"), Bucket(), replay_sinks(SETTINGS)
    for event in (g.topics(t=4), g.join(HOSTILE_NAME), g.join("c2"), g.fence("c2"), g.join("c3")):
        kafka.publish(event)
        for write in process(bucket, [Record.of(0, 0, *codec.encode_event(event))], 0, sinks):
            kafka.append(write.topic, write.value, key=write.key, headers=list(write.headers))
    return kafka


def written(command: Command, folder: Path, *words: str) -> str:
    file = folder / "report"
    status, out, errors = command("report", *words, "-o", str(file))
    assert (status, errors) == (0, "")
    text = file.read_text()
    assert out == f"{file}: {len(text):,} characters\n"
    return text


class ReportParser(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.headings: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "onload"}

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "h2":
            self.headings.append(data.strip())


@pytest.mark.usefixtures("log")
def test_html_report_of_an_episode_loads_nothing(command: Command, tmp_path: Path) -> None:
    text = written(command, tmp_path, "pay")
    page = ReportParser(text)
    headings = [heading for heading in page.headings if heading and heading != "Advice"]
    assert headings == ["What happened", "Timeline", "Rounds", "Cost", "Members now", "Other episodes", "About"]
    assert ("script" in page.tags, page.tags.count("svg"), "://" in text) == (False, 1, False)
    assert "default-src 'none'" in text
    assert text.count('class="round"') == json.loads(command("group", "pay", "--json")[1])["episodes"][0]["roundCount"]


@pytest.mark.usefixtures("log")
def test_timeline_has_one_row_per_member(command: Command, tmp_path: Path) -> None:
    text = written(command, tmp_path, "pay")
    tooltips = re.findall(r"<rect[^>]*><title>(.*?)</title>", text)
    assert tooltips[:3] == [f"{'c1&lt;script&gt;|`x`'}: {count} partitions" for count in (2, 4, 2)]
    assert "c2: 2 partitions" in tooltips
    assert "c3: 2 partitions" in tooltips


@pytest.mark.usefixtures("log")
def test_markdown_report_escapes_names(command: Command, tmp_path: Path) -> None:
    text = written(command, tmp_path, "pay", "--episode", "1", "--format", "md")
    assert text.startswith("# pay: ")
    assert "| time | generation | cause | partitions moved |" in text
    assert r"c1\<script\>\|\`x\`" in text
    assert re.search(r"^members  0 before, [12] after\n\n- joined", text, re.MULTILINE)
    assert "svg" not in text


@pytest.mark.usefixtures("log")
def test_cluster_report_lists_groups_and_cost(command: Command, tmp_path: Path) -> None:
    page = ReportParser(written(command, tmp_path, "--cluster", "--since", "4w"))
    assert [heading.split(" since")[0] for heading in page.headings if heading] == ["Groups", "Cost", "About"]


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "give one of GROUP and --cluster"),
        (("pay", "--cluster"), "give one of GROUP and --cluster"),
        (("pay", "--episode", "9"), "group pay: has no episode 9; `rebalance-monitor group pay` lists the last ones"),
    ],
)
def test_invalid_report_requests_are_refused(
    command: Command, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    assert command("report", *words, "-o", str(tmp_path / "a")) == (2, "", f"error: {message}\n")
