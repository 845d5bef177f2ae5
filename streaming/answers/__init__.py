"""Questions in, answers out: what ``assign``, ``partition``, ``place`` and ``check`` read, ask the core and write.

JSON Lines come in within a stated limit and are answered one by one, in order; a line that can't be answered is
answered with its error, and the lines after it are still answered.
"""
