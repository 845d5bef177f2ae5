"""``rebalance-monitor place``: where Kafka would put the replicas of new partitions."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from streaming.cli.options import AsJson, AsTable, command, offline


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
    from streaming.answers import place as ask
    from streaming.answers.output import writer

    placement = ask.place(
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
