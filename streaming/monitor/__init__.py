"""The pure heart: ``apply(state, event) -> (state, outputs)`` for one group, ``bucket.process`` for many.

Nothing here knows a clock, a socket, Spark or Kafka: time is an argument, the log is the truth. Reading path:
:mod:`~streaming.monitor.bucket` (many groups, one blob: what Spark calls), :mod:`~streaming.monitor.group` (which
event means what), :mod:`~streaming.monitor.derived` (the rounds are worked out, by
:mod:`~streaming.monitor.derived` the assignors) or :mod:`~streaming.monitor.observed` (they are read),
:mod:`~streaming.monitor.rounds` (what a round changes), :mod:`~streaming.monitor.outputs` (how that reads),
:mod:`~streaming.monitor.outputs` (the records to write).
"""
