"""What the group coordinator writes into ``__consumer_offsets``: bytes to groups, one module a kind of group.

``schema`` reads tables of fields. ``classic`` holds groups of the classic protocol; what their members put into its
records is read by ``embedded`` (consumers), ``streams_data`` (Kafka Streams) and ``connect`` (workers).
``consumer``, ``share`` and ``streams`` hold a kind each whose state is many records, which ``parts`` puts together:
its layouts and its full view. ``records`` knows all types of records, ``groups`` all kinds. Pure.
"""
