"""Group coordinators' log lines, from Kafka 2.0 to 4.3, in any layout.

``log`` reads one log: bytes to events, counted. ``layouts`` finds the message in a line, ``timestamps`` its time,
and ``messages`` its meaning, with ``rebalance_reasons`` and ``templates``. ``group_reasons`` collects the reasons
of each generation, and ``join_phases`` when its members stopped. All of these are pure; ``tail`` follows a file.
"""
