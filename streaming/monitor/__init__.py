"""Pure core of the stream: ``group.apply`` applies an event to one group, ``bucket.process`` a batch to many groups.

No module here reads a clock, opens a socket or uses Spark or Kafka: time is an argument. Read the modules in this
order: :mod:`~streaming.monitor.bucket` (entry point for Spark: many groups), :mod:`~streaming.monitor.group` (how
each event changes its group), :mod:`~streaming.monitor.derived` (rounds computed by the assignors),
:mod:`~streaming.monitor.observed` (rounds read from snapshots), :mod:`~streaming.monitor.rounds` (what a round
changes), :mod:`~streaming.monitor.outputs` (the records to write).
"""
