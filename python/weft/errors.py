"""What can go wrong: the statuses of the C library as exceptions, each with the library's own message."""

from __future__ import annotations

from typing import Sequence


def listed(names: Sequence[str]) -> str:
    """Names as a message has them: "a, b or c"."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


class Error(Exception):
    """Raised by every call that fails in the library. `status` is the name that weft_status_name() gives."""

    status = "failed"


class Invalid(Error, ValueError):
    """An argument is wrong; the message names it, its value and what is allowed."""

    status = "invalid"


class Unsupported(Error, NotImplementedError):
    """The arguments are right, but this build or device cannot do it."""

    status = "unsupported"


class NotFound(Error, LookupError):
    """No such order, machine, file or device."""

    status = "not found"


class NoMemory(Error, MemoryError):
    """There is not enough memory."""

    status = "out of memory"


class Unreadable(Error, OSError):
    """A file could not be read or written."""

    status = "input/output error"


class Failed(Error, RuntimeError):
    """The device or its driver failed; the message says what it reports."""

    status = "failed"


# By number, as enum weft_status counts them.
BY_STATUS = {1: Invalid, 2: Unsupported, 3: NotFound, 4: NoMemory, 5: Unreadable, 6: Failed}
