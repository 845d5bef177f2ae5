"""The collector: ``__consumer_offsets`` in, membership events out, each exactly once.

Pure: ``coordinator`` and ``broker_log`` decode records and log lines, and ``fold`` turns one partition into events.
Shells: ``source`` reads the topic, ``publisher`` writes in transactions, and ``collector`` is the loop. ``polling`` is
the collector through the Admin API.
"""
