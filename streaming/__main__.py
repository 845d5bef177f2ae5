"""``python -m streaming``: the same as ``rebalance-monitor``."""

from streaming.cli.main import main

main()
