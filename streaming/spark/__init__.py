"""The Spark job: a shell around :mod:`streaming.monitor.bucket`.

:mod:`~streaming.spark.job` starts, watches and stops :mod:`~streaming.spark.query`, and asks
:mod:`~streaming.spark.supervisor` what to do when. :mod:`~streaming.spark.plan` is what the query computes,
:mod:`~streaming.spark.operator` the stateful function that Python workers run, :mod:`~streaming.spark.session` the
JVM. It runs on PySpark's public interface; :mod:`streaming.spark.daemon` is the daemon of its Python workers.
"""
