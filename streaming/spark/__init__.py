"""The Spark job: a shell around :mod:`streaming.monitor.bucket`.

:mod:`~streaming.spark.plan` is the query, :mod:`~streaming.spark.operator` the stateful function that Python
workers run (:mod:`~streaming.spark.worker`, :mod:`~streaming.spark.arrow`), :mod:`~streaming.spark.session` the
JVM, :mod:`~streaming.spark.job` start and stop.
"""
