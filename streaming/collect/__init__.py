"""The collector: ``__consumer_offsets`` in, membership events out, each once.

Pure, bytes to events: ``encoding`` (Kafka's) → ``coordinator`` (records, and groups of each kind) → ``fold`` (one
partition, run by run) → ``outgoing`` (bytes again); with ``selection`` (which groups), ``commits`` and
``broker_log`` (why members went) and ``counts`` (of partitions).

Shells: ``collector`` (the loop), ``source`` (what was read, and the place behind it), ``publisher`` (transactions),
``reasons`` (brokers' logs), ``cluster`` and ``published`` (what is known of topics).
"""
