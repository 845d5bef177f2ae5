"""Reports are small: rows, members and rounds are limited, and a report has the number of omitted items."""

from streaming.recording.report import MAX_TABLE_ROWS, ReportSection, ReportTable, as_markdown, render_html, timeline
from tests.support.histories import diffs, play
from tests.support.recorded import RandomGroup


def test_long_tables_are_cut_and_counted() -> None:
    table = ReportTable(("a", "b"), [("x" * 300, "y")] * (MAX_TABLE_ROWS + 7))
    sections = [ReportSection(f"Part {number}", table=table) for number in range(6)]
    page, text = render_html("t", sections), as_markdown("t", sections)
    assert len(page) < 2_000_000
    assert (page.count("<td>and 7 more</td>"), text.count("| and 7 more |  |")) == (6, 6)


def test_a_timeline_of_many_rounds_stays_small() -> None:
    group = RandomGroup("g", "derived", 1, 1)
    group.session_timeout_ms = 3_600_000
    rounds = diffs(play([group.next() for _ in range(1500)])[1])
    timeline_lines = timeline(rounds, rounds[-1].timestamp + 1000)
    assert len(timeline_lines) < 1_500_000
    assert timeline_lines.count('class="round"') == min(len(rounds), 1000)


def test_without_rounds_there_is_no_picture() -> None:
    assert timeline([], 0) == ""
