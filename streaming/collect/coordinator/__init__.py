"""Decoders of the group coordinator's records in ``__consumer_offsets``. Pure.

``schema`` reads tables of fields, and ``records`` has the tables of all record types. ``classic`` reads groups of the
classic protocol, and ``embedded`` (consumers), ``streams_data`` (Kafka Streams) and ``connect`` (workers) the metadata
of their members. ``modern`` holds groups with epochs.
"""
