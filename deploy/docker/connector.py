"""At image build: Spark's Kafka connector of the installed PySpark, into ``REBALANCE_MONITOR_CACHE``.

Also beside Spark's own jars: drivers and executors that an operator starts look nowhere else.
"""

import shutil
from pathlib import Path

import pyspark

from streaming.kafka.jars import fetch, spark_connector
from streaming.spark.session import connector_jars

for jar in connector_jars(fetch([spark_connector(pyspark.__version__)], progress=None)):
    shutil.copy(jar, Path(pyspark.__file__).parent / "jars")
