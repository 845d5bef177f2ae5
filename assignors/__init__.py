"""What Kafka computes: assignors, partitioners and replica placement, as pure functions.

Nothing here knows a clock, a socket, a logger or a framework. Every answer is compared with the released
Java classes in ``tests/oracle``.
"""

__version__ = "0.1.0"
