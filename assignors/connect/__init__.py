"""Kafka Connect's assignors (``org.apache.kafka.connect.runtime.distributed``), 4.3.1."""
