"""What a notebook shows of a value. The values are below the pictures, so each picture registers for the type that it draws."""

from __future__ import annotations

import functools
from typing import Any


@functools.singledispatch
def html(value: Any) -> str:
    """A value as HTML."""
    raise TypeError(f"there is no picture of a {type(value).__name__}")


class Shown:
    """A value that a notebook shows as a picture: weft.picture registers how."""

    def _repr_html_(self) -> str:
        return html(self)
