"""``python -m streaming``: the same as ``rebalance-monitor``."""

from streaming.cli.main import main

if __name__ == "__main__":  # worker processes import this module under another name
    main()
