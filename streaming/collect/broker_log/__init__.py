"""Group coordinators' log lines, from Kafka 2.0 to 4.3, in any layout.

``log`` reads one log: bytes to events, counted. ``layouts`` finds the message and its time in a line, and ``messages``
its meaning. ``group_reasons`` collects the reasons of each generation, and when its members stopped. All are pure.
"""
