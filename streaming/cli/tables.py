"""Tables with answers of the offline commands: assignments, comparisons, placements and checks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.table import Table

from streaming.cli.diff_lines import share_text
from streaming.process.terminal import SafeText, console, fold, nowrap, right, table, wide_column


def table_writer(shown: Callable[[Any], Table]) -> Callable[[Any], None]:
    """Return a function that prints an answer as a table, or the answer's error as text."""
    screen = console(is_wide=True)

    def write(answer: Any) -> None:
        if error := answer.get("error"):
            screen.print(SafeText(f"{error['type']}: {error['message']}", "red"))
        else:
            screen.print(shown(answer))

    return write


def assignment_table(answer: Mapping[str, Any]) -> Table:
    """Return a table with one row per member or, if the answer has reasons, one row per decision."""
    if "members" in answer:
        return _explanation_table(answer)
    shares = answer["assignment"].items()
    rows = ((member, share_text(share), sum(map(len, share.values()))) for member, share in shares)
    return table((nowrap("member"), "assignment", right("partitions")), rows)


#: Kind of change → its mark and colour.
_CHANGE_MARKS = {"kept": ("= kept", "default"), "assigned": ("+ assigned", "green"), "revoked": ("− revoked", "red")}


def _explanation_table(answer: Mapping[str, Any]) -> Table:
    result = table((nowrap("member"), nowrap("change"), "partitions", wide_column("why")), ())
    for member, reason in answer["members"].items():
        name = SafeText(member)
        for (change, rule, why), share in _member_changes(reason).items():
            reasons = SafeText.assemble((rule, "bold"), f": {why}")
            result.add_row(name, SafeText(*_CHANGE_MARKS[change]), SafeText(share_text(share)), reasons)
            name = SafeText()
        if not reason["decisions"]:
            result.add_row(name, SafeText("no partitions", "dim"))
        result.add_section()
    return result


def _member_changes(reason: Mapping[str, Any]) -> dict[tuple[str, str, str], dict[str, list[int]]]:
    """Return a member's partitions grouped by change, rule and reason: kept ones first, then assigned, then revoked."""
    shares: dict[tuple[str, str, str], dict[str, list[int]]] = {}
    for change in _CHANGE_MARKS:
        for decision in reason["decisions"]:
            topic = decision["topic"]
            changed = set(reason[change].get(topic, ())).intersection(decision["partitions"])
            if changed:
                shares.setdefault((change, decision["rule"], decision["why"]), {})[topic] = sorted(changed)
    return shares


def comparison_table(answer: Mapping[str, Any]) -> Table:
    """Return a table of assignors side by side: one row per member, then the counts; the fewest moves are bold."""
    names, columns = answer["compared"].keys(), answer["compared"].values()
    members = dict.fromkeys(member for column in columns for member in column.get("assignment", ()))
    rows = ((member, *(share_text(way.get("assignment", {}).get(member, {})) for way in columns)) for member in members)
    result = table((nowrap("member"), *map(fold, names)), rows)
    result.add_section()
    moves = {column["moved"] for column in columns if "moved" in column}
    fewest_moves = min(moves) if len(moves) > 1 else None
    for name in ("kept", "revoked", "assigned", "moved", "most", "least"):
        counts = [column.get(name, "") for column in columns]
        cells = (SafeText(str(n), "bold green" if name == "moved" and n == fewest_moves else "") for n in counts)
        result.add_row(SafeText(f"{name} per member" if name in ("most", "least") else name, "dim"), *cells)
    if any("error" in column for column in columns):
        messages = (SafeText(column.get("error", {}).get("message", ""), "red") for column in columns)
        result.add_row(SafeText("error", "dim"), *messages)
    return result


def placement_table(answer: Mapping[str, Sequence[int]]) -> Table:
    """Return a table of replica placements, with one row per partition."""
    rows = ((partition, brokers[0], ", ".join(map(str, brokers))) for partition, brokers in answer.items())
    return table((right("partition"), right("leader"), "replicas"), rows)


def check_table(answer: Mapping[str, Any]) -> Table:
    """Return the result of a check as a table: its violations and, for a placement, the replicas to move."""
    rows: list[tuple[object, ...]] = [(SafeText("ok", "green") if answer["ok"] else SafeText("violations", "red"), "")]
    rows += [violation.partition(": ")[::2] for violation in answer["violations"]]
    rows.append((SafeText("checked", "dim"), ", ".join(answer["rules"])))
    for name in ("leaders", "replicas"):
        if name in answer:
            counts = ", ".join(f"{broker}: {number}" for broker, number in answer[name].items())
            rows.append((SafeText(f"{name} by broker", "dim"), counts))
    for name, verb in (("moves", "move"), ("leaderChanges", "lead")):
        rows += [(verb, f"{step['partition']}: {step['from']} → {step['to']}") for step in answer.get(name, ())]
    return table((nowrap("result"), "details"), rows)
