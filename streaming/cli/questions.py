"""``assign``, ``check``, ``partition`` and ``place``: what Kafka computes, without a cluster."""

from __future__ import annotations

from typing import Annotated, Literal

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
    from streaming.cli import assignment as ask
    from streaming.cli.json_lines import answer_lines, standard_input
    from streaming.cli.output import writer

    write = writer("compared" if compare else "assigned", as_json=as_json, as_table=as_table)
    raise typer.Exit(
        answer_lines(
            standard_input(),
            ask.line_answer(compared=compare, explained=explain),
            write,
            limit=max_line_bytes,
        )
    )


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
    from streaming.cli import checking as ask
    from streaming.cli.json_lines import standard_input
    from streaming.cli.output import writer

    write = writer("checked", as_json=as_json, as_table=as_table)
    raise typer.Exit(ask.check_lines(standard_input(), write, exact=exact, limit=max_line_bytes))


@command(
    "Example: printf 'alice\\nbob\\n' | rebalance-monitor partition --partitions 6",
    subcommand_metavar="< FILE",
)
@offline
def partition(
    *,
    partitions: Annotated[int, typer.Option("--partitions", metavar="N", help="Partitions of the topic.")],
    partitioner: Annotated[
        Literal["murmur2", "round-robin", "sticky"],
        typer.Option("--partitioner", help="By key; by turn; or one partition a batch, whatever the key."),
    ] = "murmur2",
    keys: Annotated[Literal["utf8", "base64"], typer.Option("--keys", help="How keys are written.")] = "utf8",
    start: Annotated[int, typer.Option("--start", help="Round robin: the counter's first value.")] = 0,
    batch_size: Annotated[
        int, typer.Option("--batch-size", help="Sticky: bytes before the next partition (batch.size).")
    ] = 16_384,
    record_size: Annotated[
        int, typer.Option("--record-size", help="Sticky: bytes a record counts for.")
    ] = 100,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Sticky: choose as new java.util.Random(SEED) does.")
    ] = None,
    max_line_bytes: MaxLineBytes = None,
) -> None:
    """Read one key a line from standard input; write one partition a line. An empty line is the empty key."""
    from streaming.cli.json_lines import standard_input
    from streaming.cli.output import standard_output
    from streaming.cli.partitioning import partition_chooser, partition_lines

    chosen = partition_chooser(
        partitioner, partitions, start=start, batch_size=batch_size, record_size=record_size, seed=seed
    )
    raise typer.Exit(
        partition_lines(
            standard_input(),
            standard_output(),
            chosen,
            keys=keys,
            limit=max_line_bytes,
        )
    )


@command(
    "Example: rebalance-monitor place --brokers 0:r1,1:r2,2:r3 --partitions 6 --replication-factor 3 "
    "--start-index 0",
    subcommand_metavar="",
)
@offline
def place(
    *,
    brokers: Annotated[
        str,
        typer.Option(
            "--brokers", metavar="ID[:RACK],…", help="Brokers, with racks; striped: 3:r1:fenced, 3::fenced."
        ),
    ],
    partitions: Annotated[int, typer.Option("--partitions", metavar="N", help="New partitions.")],
    replication_factor: Annotated[int, typer.Option("--replication-factor", metavar="N")],
    placer: Annotated[
        Literal["admin-utils", "striped"],
        typer.Option("--placer", help="ZooKeeper-era clusters and tools; or KRaft controllers."),
    ] = "admin-utils",
    start_index: Annotated[
        int | None,
        typer.Option("--start-index", help="admin-utils: broker of partition 0.", show_default="random"),
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option(
            "--shift", help="admin-utils: of the first followers.", show_default="start index, or random"
        ),
    ] = None,
    start_partition: Annotated[
        int, typer.Option("--start-partition", help="First new partition, when extending a topic.")
    ] = 0,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Draw what is random as new java.util.Random(SEED) does.")
    ] = None,
    as_json: AsJson = False,
    as_table: AsTable = False,
) -> None:
    """Write the brokers of every new partition as one JSON object, the preferred leader first."""
    from streaming.cli import checking as ask
    from streaming.cli.output import writer

    placement = ask.place_replicas(
        brokers,
        partitions,
        replication_factor,
        placer=placer,
        start_index=start_index,
        shift=shift,
        start_partition=start_partition,
        seed=seed,
    )
    write = writer("placed", as_json=as_json, as_table=as_table)
    write({str(partition): replicas for partition, replicas in placement.items()})
