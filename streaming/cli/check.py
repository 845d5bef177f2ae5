"""``rebalance-monitor check``: does an observed assignment, or a placement, keep Kafka's rules?"""

from __future__ import annotations

from typing import Annotated

import typer

from streaming.cli.options import AsJson, AsTable, MaxLineBytes, command, offline

_Exact = Annotated[
    bool, typer.Option("--exact", help="It must also be the very assignment the assignor computes.")
]


@command(
    """Example: echo '{"brokers": "0:r1,1:r2", "placement": {"0": [0, 1], "1": [0, 1]}}' """
    """| rebalance-monitor check --table""",
    subcommand_metavar="< FILE",
)
@offline
def check(
    *,
    exact: _Exact = False,
    as_json: AsJson = False,
    as_table: AsTable = False,
    max_line_bytes: MaxLineBytes = None,
) -> None:
    """Read JSON Lines from standard input: groups as `assign` takes them plus "assignment", what was observed;
    or placements, {"brokers": "0:r1,1:r2", "placement": {"0": [0, 1]}}.

    The exit status is 1 when a rule is broken, 2 when a line can't be used.
    """
    from streaming.answers import check as ask
    from streaming.answers.lines import standard_input
    from streaming.answers.output import writer

    write = writer("checked", as_json=as_json, as_table=as_table)
    raise typer.Exit(ask.check_lines(standard_input(), write, exact=exact, limit=max_line_bytes))
