"""The demo's kafka-python consumer, which connects from the address in ``HOST_ADDRESS`` to have its own host."""

import os
import socket
from typing import Any

from streaming.demo.consumer import main

_connect = socket.socket.connect_ex


def _connect_from_host(self: socket.socket, address: Any) -> int:
    if self.family == socket.AF_INET and not self.getsockname()[1]:  # first attempt
        self.bind((os.environ["HOST_ADDRESS"], 0))
    return _connect(self, address)


if __name__ == "__main__":
    socket.socket.connect_ex = _connect_from_host  # type: ignore[method-assign]
    main()
