"""The collector: reads ``__consumer_offsets`` and publishes each membership event exactly once.

Pure modules: ``coordinator`` and ``broker_log`` decode records and log lines, and ``fold`` turns a partition into
events. I/O: ``source`` reads the topic, ``publisher`` writes in transactions, and ``collector`` is the loop.
``polling`` is the collector through the Admin API.
"""
