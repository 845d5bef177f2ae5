"""Reports in one file: HTML that loads nothing, or Markdown; with a timeline of partition owners."""

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from streaming.records.codec import rfc3339
from streaming.records.diffs import Diff
from streaming.records.names import display_names, shorten_random_id

#: Rows of a table, rows of a timeline, and rounds of a timeline, so that a report stays under 2 MB.
MAX_TABLE_ROWS: Final = 500
_MAX_MEMBERS: Final = 60
_MAX_ROUNDS: Final = 1000
_STYLESHEET: Final = """
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:75em;margin:2em auto;padding:0 1em}
h2{margin-top:2em}
.line{white-space:pre-wrap;font-family:ui-monospace,monospace;font-size:13px}
table{border-collapse:collapse}
th,td{text-align:left;vertical-align:top;padding:.25em .75em;border-bottom:1px solid #8884;overflow-wrap:anywhere}
svg{width:100%;height:auto;font:12px system-ui,sans-serif}
svg text{fill:currentColor}
.owns{fill:#3b82c4}.idle{fill:#9aa4b0}.round{stroke:#d97706;stroke-width:1}
"""
_MARKDOWN_CHARACTERS: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")


class ReportTable(NamedTuple):
    """A table of a report: its title, columns and rows."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


class ReportSection(NamedTuple):
    """A section of a report: lines of text, a table, and a picture (SVG) that only HTML reports show."""

    title: str
    lines: Sequence[str] = ()
    table: ReportTable | None = None
    svg: str = ""


def html_page(title: str, body: str) -> str:
    """Return an HTML page that needs no other files."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{html.escape(title)}</title><style>{_STYLESHEET}</style></head>\n"
        f"<body><h1>{html.escape(title)}</h1>\n{body}</body></html>\n"
    )


def html_lines(lines: Iterable[str]) -> str:
    """Return an HTML element that shows lines as in a terminal."""
    return "".join(f'<div class="line">{html.escape(line)}</div>\n' for line in lines)


def render_html(title: str, sections: Iterable[ReportSection]) -> str:
    """Return a report as one HTML page."""
    parts: list[str] = []
    for section in sections:
        parts += [f"<h2>{html.escape(section.title)}</h2>\n", html_lines(section.lines), section.svg]
        if section.table is not None:
            heads = "".join(f"<th>{html.escape(head)}</th>" for head in section.table.heads)
            rows = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in _shown_rows(section.table))
            body = "".join(f"<tr>{row}</tr>\n" for row in rows)
            parts.append(f"<table><tr>{heads}</tr>\n{body}</table>\n")
    return html_page(title, "".join(parts))


def as_markdown(title: str, sections: Iterable[ReportSection]) -> str:
    """Return a report as Markdown, without pictures; indented lines are items of a list."""
    parts = [f"# {_escape_markdown(title)}\n"]
    for section in sections:
        if section.table is None and not section.lines:
            continue
        parts.append(f"\n## {_escape_markdown(section.title)}\n\n")
        for line in section.lines:
            text = _escape_markdown(line.strip())
            parts.append(f"- {text}\n" if line.startswith("  ") else f"\n{text}\n\n")
        if section.table is not None:
            heads = section.table.heads
            parts.append(f"| {' | '.join(map(_escape_markdown, heads))} |\n|{'---|' * len(heads)}\n")
            parts += [f"| {' | '.join(map(_escape_markdown, row))} |\n" for row in _shown_rows(section.table)]
    return "".join(parts)


def _shown_rows(table: ReportTable) -> Iterator[Sequence[str]]:
    yield from table.rows[:MAX_TABLE_ROWS]
    if len(table.rows) > MAX_TABLE_ROWS:
        yield [f"and {len(table.rows) - MAX_TABLE_ROWS} more", *[""] * (len(table.heads) - 1)]


def _escape_markdown(text: str) -> str:
    return _MARKDOWN_CHARACTERS.sub(r"\\\1", text)


def round_table(diffs: Sequence[Diff]) -> ReportTable:
    """Return a table of a report with one row per rebalance round."""
    rows = []
    for diff in diffs:
        names = display_names(diff.named)
        members = ", ".join(names.get(member, shorten_random_id(member)) for member in diff.cause.member_ids[:10])
        number = diff.group_epoch if diff.generation is None else diff.generation
        rows.append((rfc3339(diff.timestamp), str(number), f"{diff.cause.kind} {members}", str(diff.moved)))
    return ReportTable(("time", "generation", "cause", "partitions moved"), rows)


def timeline(diffs: Sequence[Diff], end: int) -> str:
    """Return an SVG picture of the members' partitions until ``end`` (ms); empty without rounds."""
    diffs = diffs[-_MAX_ROUNDS:]
    if not diffs:
        return ""
    rows = _member_rows(diffs, end)
    begin, last = diffs[0].timestamp, max(end, diffs[-1].timestamp)
    margin_ms = max((last - begin) // 20, 500)
    begin, last, left_margin, width = begin - margin_ms, last + margin_ms, 220, 1000

    def x(timestamp: int) -> str:
        return f"{left_margin + (timestamp - begin) * (width - left_margin) / (last - begin):.1f}"

    shown = list(rows.items())[:_MAX_MEMBERS]
    height = 18 * len(shown) + 40
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="Partitions of each member over time">']
    for number, (name, intervals) in enumerate(shown):
        top = 18 * number + 4
        parts.append(f'<text x="{left_margin - 8}" y="{top + 11}" text-anchor="end">{html.escape(name[-34:])}</text>')
        for began, ended, partitions in intervals:
            span = (max(ended, began + 1) - began) * (width - left_margin) / (last - begin)
            what = "owns" if partitions else "idle"
            parts.append(
                f'<rect class="{what}" x="{x(began)}" y="{top}" width="{span:.1f}" height="14">'
                f"<title>{html.escape(name)}: {partitions} partitions</title></rect>"
            )
    parts += [
        f'<line class="round" x1="{x(diff.timestamp)}" x2="{x(diff.timestamp)}" y1="0" y2="{height - 32}">'
        f"<title>{rfc3339(diff.timestamp)} {html.escape(diff.cause.kind)}</title></line>"
        for diff in diffs
    ]
    more = f", {len(rows) - len(shown)} more members" if len(rows) > len(shown) else ""
    parts.append(f'<text x="{left_margin}" y="{height - 10}">{rfc3339(begin)[:19]}Z{more}</text>')
    parts.append(f'<text x="{width}" y="{height - 10}" text-anchor="end">{rfc3339(last)[:19]}Z</text></svg>\n')
    return "".join(parts)


def _member_rows(diffs: Sequence[Diff], end: int) -> Mapping[str, list[tuple[int, int, int]]]:
    """Return each member's intervals between changes of its assignment: begin, end (ms) and partition count."""
    names: dict[str, str] = {}
    current: dict[str, tuple[int, int]] = {}
    rows: dict[str, list[tuple[int, int, int]]] = {}

    def close(member: str, at: int) -> None:
        began, partitions = current.pop(member)
        rows.setdefault(names.get(member, shorten_random_id(member)), []).append((began, at, partitions))

    for diff in diffs:
        names |= display_names(diff.named)
        for member, change in diff.members.items():
            owned_before = sum(map(len, change.owned.values()))
            if member not in current and owned_before:
                current[member] = (diffs[0].timestamp, owned_before)
            if member in current:
                close(member, diff.timestamp)
            after = sum(map(len, (*change.kept.values(), *change.assigned.values())))
            if change.present is not False:
                current[member] = (diff.timestamp, after)
    for member in list(current):
        close(member, end)
    return rows
