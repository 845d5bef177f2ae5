"""What spark-submit runs in a driver pod: the command line, with Spark's gateway already there."""

from streaming.cli.main import main

main()
