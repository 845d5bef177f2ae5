"""The collector that polls the Admin API, for clusters whose ``__consumer_offsets`` can't be read.

Pure modules: ``group`` (the events that follow from an answer) and ``schedule`` (when to request each group). Modules
with I/O: ``requests`` (the Admin API), ``resume`` (state from the topics) and ``collector`` (the loop). Every event has
:data:`~streaming.collect.polling.group.LIMITS`.
"""
