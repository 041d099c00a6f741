# SPDX-License-Identifier: Apache-2.0
"""What can go wrong: the statuses of the C library as exceptions, each with the library's own message."""

from __future__ import annotations

from typing import Sequence


def listed(names: Sequence[str]) -> str:
    """Names as a message has them: "a, b or c"."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


class Error(Exception):
    """Raised by every call that fails in the library. `status` is the name that weft_status_name() gives.

    >>> try:
    ...     weft.Gemm(1, 2, 0)
    ... except weft.Error as error:
    ...     print(error.status, error, sep=": ")
    invalid: k 0 is not between 1 and 2147483647
    """

    status = "failed"


class Invalid(Error, ValueError):
    """An argument is wrong; the message names it, its value and what is allowed.

    >>> weft.Attention(seq=8, heads=8, kv_heads=3)
    Traceback (most recent call last):
    weft.errors.Invalid: kv_heads 3 does not divide heads 8
    """

    status = "invalid"


class Unsupported(Error, NotImplementedError):
    """The arguments are right, but this build or device cannot do it.

    >>> weft.recommend(weft.Gemm(64, 64, 64, "bf16"), "h100", cost="model")
    Traceback (most recent call last):
    weft.errors.Unsupported: ...not measured on h100...
    """

    status = "unsupported"


class NotFound(Error, LookupError):
    """No such order, machine, file or device.

    >>> weft.Machine("none")
    Traceback (most recent call last):
    weft.errors.NotFound: no machine "none"...
    """

    status = "not found"


class NoMemory(Error, MemoryError):
    """There is not enough memory.

    >>> issubclass(weft.NoMemory, MemoryError)
    True
    """

    status = "out of memory"


class Unreadable(Error, OSError):
    """A file could not be read or written.

    >>> weft.sweep(weft.Gemm(64, 64, 64), machines="gb10").plot().save("/nowhere/plot.svg")
    Traceback (most recent call last):
    weft.errors.Unreadable: .../nowhere/plot.svg...
    """

    status = "input/output error"


class Failed(Error, RuntimeError):
    """The device or its driver failed; the message says what it reports.

    >>> issubclass(weft.Failed, RuntimeError)
    True
    """

    status = "failed"


# By number, as enum weft_status counts them.
BY_STATUS = {1: Invalid, 2: Unsupported, 3: NotFound, 4: NoMemory, 5: Unreadable, 6: Failed}
