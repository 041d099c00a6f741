# SPDX-License-Identifier: Apache-2.0
"""What a notebook and a prompt show of a value. The values are below the pictures, so each picture registers for the type that it draws."""

from __future__ import annotations

import dataclasses
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


_LONGEST = 16  # elements of a tuple that are shown


class Brief:
    """A dataclass whose repr() has the fields that differ from their defaults, and is short."""

    def __repr__(self) -> str:
        fields = ((field, getattr(self, field.name)) for field in dataclasses.fields(self))  # type: ignore[arg-type]
        said = (f"{field.name}={_short(value)}" for field, value in fields if field.default is dataclasses.MISSING or value != field.default)
        return f"{type(self).__name__}({', '.join(said)})"


def _short(value: Any) -> str:
    return f"<{len(value):,} values>" if isinstance(value, tuple) and len(value) > _LONGEST else repr(value)
