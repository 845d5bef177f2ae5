"""Decoders of the group coordinator's records in ``__consumer_offsets``, one module a kind of group. Pure.

``schema`` reads tables of fields. ``classic`` reads groups of the classic protocol, and ``embedded`` (consumers),
``streams_data`` (Kafka Streams) and ``connect`` (workers) the metadata of their members. ``modern`` is the base of
groups with epochs: ``consumer``, ``share`` and ``streams``. ``records`` has all record types, ``groups`` all kinds.
"""
