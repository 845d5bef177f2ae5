"""The monitor: collectors, the Spark job, the feed and the command line around a pure core.

``assignors`` computes what Kafka computes; ``streaming.protocols`` and ``streaming.monitor`` are pure state
machines over it; ``streaming.spark``, ``streaming.kafka``, ``streaming.collect`` and ``streaming.serve`` are
thin shells around those.
"""
