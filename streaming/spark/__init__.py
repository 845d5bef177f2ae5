"""The Spark job, which runs :mod:`streaming.monitor.bucket` on the membership topic."""
