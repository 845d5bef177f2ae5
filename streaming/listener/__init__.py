"""The listener: applications report their consumers' joins, assignments, revocations and leaves to the monitor.

Three lines in the application, before it makes its consumer as ever (confluent-kafka or kafka-python)::

    from streaming.listener import Listener

    listener = Listener("monitor-kafka:9092")
    Consumer = listener.wrap(Consumer)

The consumer's callbacks queue events and return; the listener's own thread sends them to the monitor's cluster,
which may be another one, or unavailable. The application never sees its errors.
"""

from typing import TYPE_CHECKING

from assignors.lazy import lazy

if TYPE_CHECKING:
    from streaming.listener.listener import Listener

__all__ = ["Listener"]

__getattr__, __dir__ = lazy(globals(), {"streaming.listener.listener": ("Listener",)})
