"""The collector: ``__consumer_offsets`` in, membership events out, each once.

Pure, bytes to events: ``wire`` (Kafka's encoding) → ``records`` (typed) → ``groups`` (state in, state out) →
``fold`` (one partition, run by run), with ``embedded`` (what consumers put in), ``commits`` and
``coordinator_log`` (why). Shells: ``collector`` (the loop), ``sink`` (transactions), ``metadata`` and
``published`` (partition counts), ``log_tail``.
"""
