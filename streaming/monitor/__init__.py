"""The pure heart: ``apply(state, event) -> (state, outputs)`` for one group, ``bucket.process`` for many.

Nothing here knows a clock, a socket, Spark or Kafka: time is an argument, the log is the truth. Reading path:
:mod:`~streaming.monitor.apply` (which event means what), :mod:`~streaming.monitor.derived` (the assignment is
computed) or :mod:`~streaming.monitor.observed` (it is read), :mod:`~streaming.monitor.rounds` (the diff of one
round), :mod:`~streaming.monitor.bucket` (many groups, one blob: what Spark calls).
"""
