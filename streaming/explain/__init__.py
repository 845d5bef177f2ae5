"""Rounds and episodes of groups, read from brokers' logs, clients' logs and the output of Kafka's tools.

This package is pure code. ``clients`` and ``tools`` convert a message into an event. ``reader`` converts one file into
events and counts its lines. ``story`` sorts events by group and time, ``rounds`` builds rounds from events, and
``episodes`` builds episodes from rounds, as :mod:`streaming.episodes` classifies them.
"""
