"""Reads group coordinators' log lines of Kafka 2.0 to 4.3, in any log layout.

``log`` turns one log's bytes into events and counts its lines. ``layouts`` finds the message and its time in a line,
and ``messages`` parses the message. ``group_reasons`` collects the reasons of each generation, and when its members
stopped. All four are pure.
"""
