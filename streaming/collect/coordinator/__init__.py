"""Pure decoders of the group coordinator's records in ``__consumer_offsets``.

``schema`` reads tables of fields, and ``records`` has the tables of all record types. ``classic`` reads groups of the
classic protocol; ``embedded`` (consumers and Kafka Streams) and ``connect`` (workers) read the metadata
of their members. ``modern`` holds groups with epochs.
"""
