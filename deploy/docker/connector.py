"""Fetches Spark's Kafka connector of the installed PySpark into ``REBALANCE_MONITOR_CACHE``, at image build."""

from pyspark.version import __version__

from streaming.kafka.jars import fetch, spark_connector

fetch([spark_connector(__version__)], progress=None)
