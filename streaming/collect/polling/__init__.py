"""The collector for clusters whose ``__consumer_offsets`` can't be read: it polls the Admin API.

Pure: ``group`` (an answer's meaning for its group) and ``schedule`` (when to request each group). Shells:
``requests`` (the Admin API), ``resume`` (state from the topics) and ``collector`` (the loop). Every event carries
:data:`~streaming.collect.polling.group.LIMITS`.
"""
