"""The Spark job, which runs :mod:`streaming.monitor.bucket` on the membership topic.

:mod:`~streaming.spark.job` starts, watches and stops :mod:`~streaming.spark.query`, and
:mod:`~streaming.spark.supervisor` decides what the job does next. :mod:`~streaming.spark.operator` is the stateful
function that Python workers run, and :mod:`~streaming.spark.session` starts the JVM.
"""
