"""Pure decoders of the group coordinator's records in ``__consumer_offsets``.

``schema`` decodes values by tables of fields, and ``records`` has the tables of all record types. ``classic`` decodes
groups of the classic protocol; ``embedded`` (consumers and Kafka Streams) and ``connect`` (workers) decode the metadata
of their members. ``modern`` has the state of groups with epochs.
"""
