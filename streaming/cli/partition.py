"""``rebalance-monitor partition``: the partition a producer sends each key to."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from streaming.cli.options import MaxLineBytes, command, offline


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
    from streaming.answers.keys import chooser, partition_lines
    from streaming.answers.lines import standard_input
    from streaming.answers.output import standard_output

    chosen = chooser(
        partitioner, partitions, start=start, batch_size=batch_size, record_size=record_size, seed=seed
    )
    raise typer.Exit(
        partition_lines(
            standard_input(),
            standard_output(),
            chosen,
            keys=keys,
            partitions=partitions,
            limit=max_line_bytes,
        )
    )
