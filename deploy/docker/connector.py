"""Copies the Kafka connector of the installed PySpark into ``REBALANCE_MONITOR_CACHE`` when an image is built.

The connector is also copied beside Spark's own jars, the only place that an operator's drivers and executors search.
"""

import shutil
from importlib.util import find_spec
from pathlib import Path

import pyspark

from streaming.kafka.security import java_packages
from streaming.settings.connection import KafkaSettings
from streaming.spark.session import kafka_connector

packages: tuple[str, ...] = ()
if find_spec("aws_msk_iam_sasl_signer") is not None:
    kafka_connector()
    packages = java_packages(KafkaSettings.model_construct(sasl_mechanism="AWS_MSK_IAM"))
for jar in kafka_connector(packages):
    shutil.copy(jar, Path(pyspark.__file__).parent / "jars")
