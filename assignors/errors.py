"""Base classes of all errors that this project raises.

The docstring of a class is its default message; the name of a class is its public ``type`` in JSON answers.
``exit_status`` is what the command line ends with: 2 for bad usage or input, 3 for a failure outside.
"""

from typing import ClassVar


class MonitorError(Exception):
    """Something went wrong."""

    exit_status: ClassVar[int] = 2

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").strip().splitlines()[0])

    @property
    def type(self) -> str:
        """The public name of this error in JSON answers."""
        return type(self).__name__


class BadInput(MonitorError):  # noqa: N818 - the name is the public `type` in JSON answers
    """The input is invalid or can't be read."""


class OutsideFailure(MonitorError):  # noqa: N818 - same
    """Something outside this program failed."""

    exit_status = 3


class UnknownAssignor(BadInput):
    """The protocol has no assignor with this name."""


class InvalidGroup(BadInput):
    """The group's topics or members contradict each other."""
