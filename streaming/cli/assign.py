"""``rebalance-monitor assign``: what Kafka would assign, one group a line."""

from __future__ import annotations

from typing import Annotated

import typer

from streaming.cli.options import AsJson, AsTable, MaxLineBytes, command, offline

_Explain = Annotated[
    bool, typer.Option("--explain", help="Add each member's owned, revoked, assigned, kept, and why.")
]
_Compare = Annotated[
    bool,
    typer.Option(
        "--compare", help="Range, round robin, sticky and cooperative side by side, and what each moves."
    ),
]


@command(
    """Example: echo '{"assignor": "range", "topics": {"t0": {"partitions": 3}}, "members": """
    """[{"memberId": "c1", "topics": ["t0"]}, {"memberId": "c2", "topics": ["t0"]}]}' | rebalance-monitor assign""",
    subcommand_metavar="< FILE",
)
@offline
def assign(
    *,
    explain: _Explain = False,
    compare: _Compare = False,
    as_json: AsJson = False,
    as_table: AsTable = False,
    max_line_bytes: MaxLineBytes = None,
) -> None:
    """Read groups as JSON Lines from standard input; answer each with the assignment Kafka would compute.

    A line that can't be answered is answered with its error; the exit status is then 2.
    """
    from streaming.answers import assign as ask
    from streaming.answers.lines import answer_lines, standard_input
    from streaming.answers.output import writer

    write = writer("compared" if compare else "assigned", as_json=as_json, as_table=as_table)
    raise typer.Exit(
        answer_lines(
            standard_input(), ask.answering(compared=compare, explained=explain), write, limit=max_line_bytes
        )
    )
