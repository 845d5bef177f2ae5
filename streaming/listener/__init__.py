"""The listener: consumers tell the monitor themselves when they join, what they hold, give up and lose, and leave.

Three lines in the application, before it makes its consumer as ever (confluent-kafka or kafka-python)::

    from streaming.listener import Listener

    listener = Listener("monitor-kafka:9092")
    Consumer = listener.wrap(Consumer)

Callbacks of the consumer note what happened and return; a thread of the listener's own sends it, to the monitor's
cluster, which may be another one, or away. Nothing of it is raised into the application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors.lazy import lazy

if TYPE_CHECKING:
    from streaming.listener.listener import Listener

__all__ = ["Listener"]

__getattr__, __dir__ = lazy(globals(), {"streaming.listener.listener": ("Listener",)})
