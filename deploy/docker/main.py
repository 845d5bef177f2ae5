"""Entry point of spark-submit in a driver pod: runs the command line over Spark's existing gateway."""

from streaming.cli.main import main

main()
