"""The Spark job: a shell around :mod:`streaming.monitor.bucket`.

:mod:`~streaming.spark.job` starts, watches and stops :mod:`~streaming.spark.query`, and asks
:mod:`~streaming.spark.supervisor` what to do when. :mod:`~streaming.spark.plan` is what the query computes,
:mod:`~streaming.spark.operator` the stateful function that Python workers run, :mod:`~streaming.spark.session` the
JVM. What this uses of PySpark beyond its public interface is behind one door, :mod:`streaming.spark.pyspark`.
"""
