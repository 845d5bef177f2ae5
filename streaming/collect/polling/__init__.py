"""The collector for clusters whose ``__consumer_offsets`` can't be read: it asks the coordinators, over and over.

Pure: ``group`` (what an answer means for its group) and ``pace`` (when each group is asked about). Shells:
``asking`` (the Admin API), ``resume`` (where an earlier collector stopped) and ``collector`` (the loop). What the
answers don't hold, :data:`~streaming.collect.polling.group.LIMITS` says in every event.
"""
