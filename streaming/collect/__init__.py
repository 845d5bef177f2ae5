"""The collector: ``__consumer_offsets`` in, membership events out, each exactly once.

Pure, bytes to events: ``encoding`` (Kafka's encoding), ``coordinator`` (records and groups), ``followed_group`` and
``fold`` (one partition, run by run), with ``evidence``, ``partition_owners``, ``counts`` and ``broker_log``.

Shells: ``collector`` (the loop), ``source`` (reads the topic), ``publisher`` (transactions),
``counts_publisher``, ``broker_reasons`` (brokers' logs), ``cluster`` (topics), ``lifecycle`` (what both
collectors share). ``polling`` is the collector through the Admin API.
"""
