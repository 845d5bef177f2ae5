"""The Spark job: a shell around :mod:`streaming.monitor.bucket`.

:mod:`~streaming.spark.job` starts, watches and stops :mod:`~streaming.spark.query`, and
:mod:`~streaming.spark.supervisor` decides what it does next. :mod:`~streaming.spark.operator` is the stateful
function that Python workers run, :mod:`~streaming.spark.session` the JVM.
"""
