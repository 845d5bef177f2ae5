"""The collector for clusters whose ``__consumer_offsets`` can't be read; it polls the Admin API.

Pure modules: ``group`` (the events that follow from an answer) and ``schedule`` (when to request each group). I/O:
``requests`` (the Admin API), ``resume`` (state from the topics) and ``collector`` (the loop). Every event carries
:data:`~streaming.collect.polling.group.LIMITS`.
"""
