"""The listener: applications report their consumers' joins, assignments, revocations and leaves to the monitor.

Add three lines before the application creates its consumer (confluent-kafka or kafka-python) as usual::

    from streaming.listener import Listener

    listener = Listener("monitor-kafka:9092")
    Consumer = listener.wrap(Consumer)

The consumer's callbacks queue events and return. A thread of the listener sends the events to the monitor's cluster,
which may be unavailable, or another cluster than the application's. The listener raises no errors in the application.
"""

from typing import TYPE_CHECKING

from assignors import lazy_names

if TYPE_CHECKING:
    from streaming.listener.listener import Listener

__all__ = ["Listener"]

__getattr__, __dir__ = lazy_names(globals(), {"streaming.listener.listener": ("Listener",)})
