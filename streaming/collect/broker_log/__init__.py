"""Brokers' logs: the lines that group coordinators write, from Kafka 2.0 to 4.3, in any layout.

Pure: ``lines`` (bytes to the few lines that matter) → ``layouts`` (a line to its message; ``moments``: timestamps)
→ ``messages`` (the table of messages by release; ``rebalance_reasons``, ``templates``) → ``events`` → ``reader``
(why each generation began; ``join_phases``: when members stopped). ``log``: one log from bytes to events, counted.

Shell: ``tail`` (follows a file).
"""
