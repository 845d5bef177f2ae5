"""Rounds and episodes of groups from logs: brokers' logs, clients' logs and the output of Kafka's tools.

Pure: ``clients`` and ``tools`` (a message to an event) → ``reader`` (one file to events, counted) → ``story``
(sorted by group and time) → ``rounds`` → ``episodes`` (as :mod:`streaming.episodes` classifies them).
"""
