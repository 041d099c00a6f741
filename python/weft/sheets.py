# SPDX-License-Identifier: Apache-2.0
"""Sheets: what machines and kernel profiles have in common. Each number has a source."""

from __future__ import annotations

import ctypes
import os
from typing import Any, ClassVar, List, NamedTuple, Optional, Type, TypeVar, Union

from . import _c
from .errors import Invalid

Path = Union[str, "os.PathLike[str]"]
T = TypeVar("T", bound="Sheet")


class Value(NamedTuple):
    """One value as text, with its unit, where it comes from and what it means."""

    section: str
    key: str
    value: str
    unit: str
    source: str
    text: str


class Sheet:
    """A C structure that a file fills: a built-in one by name, or a file by path (anything with a "/" or ending in ".ini")."""

    _noun: ClassVar[str]  # weft_<noun>_load() and the rest
    _structure: ClassVar[Any]

    def __init__(self, name: Path):
        self._c = self._structure()
        self._origin: Optional[str] = os.fspath(name)
        _c.call(self._function("load"), ctypes.byref(self._c), os.fsencode(name))

    @classmethod
    def _function(cls, name: str):
        return getattr(_c.library, f"weft_{cls._noun}_{name}")

    @classmethod
    def _bare(cls: Type[T]) -> T:
        sheet = cls.__new__(cls)
        sheet._c, sheet._origin = cls._structure(), None
        return sheet

    @classmethod
    def parse(cls: Type[T], text: str, label: str = "text") -> T:
        """One from what a file holds; `label` stands for the file's name in messages."""
        sheet, data = cls._bare(), text.encode()
        _c.call(cls._function("parse"), ctypes.byref(sheet._c), data, len(data), label.encode())
        return sheet

    @classmethod
    def names(cls) -> List[str]:
        """The built-in ones."""
        names: List[str] = []
        while cls._function("name")(len(names)):
            names.append(cls._function("name")(len(names)).decode())
        return names

    def values(self) -> List[Value]:
        """Every value with its unit and its source; for those that come from a file or a name."""
        if self._origin is None:
            raise Invalid(f"{self.name} comes from no file, so its values have no sources")
        values, count, name = _c.array(_c.MachineValue, 256), ctypes.c_size_t(), self._origin.encode()
        _c.call(self._function("values"), name, None, values, len(values), ctypes.byref(count))
        fields = ("section", "key", "value", "unit", "source", "text")
        rows = values[: min(count.value, len(values))]
        return [Value(*((getattr(row, field) or b"").decode() for field in fields)) for row in rows]

    def replace(self: T, **numbers: float) -> T:
        """A copy with some numbers changed: machine.replace(l2_bytes=96 << 20)."""
        sheet = self._bare()
        ctypes.pointer(sheet._c)[0] = self._c
        for name, number in numbers.items():
            if name not in self._numbers():
                raise Invalid(f"a {self._noun} has no number {name!r}: {', '.join(self._numbers())}")
            setattr(sheet._c, name, number)
        return sheet

    @classmethod
    def _fields(cls) -> List[str]:
        return [name for name, _ in cls._structure._fields_ if name != "struct_size"]

    @classmethod
    def _numbers(cls) -> List[str]:
        return [name for name, kind in cls._structure._fields_ if name != "struct_size" and not hasattr(kind, "_length_")]

    def __getattr__(self, name: str):
        if name in self._fields():
            value = getattr(self._c, name)
            return value.decode() if isinstance(value, bytes) else value
        raise AttributeError(f"a {self._noun} has no {name!r}")

    def __dir__(self):
        return sorted({*super().__dir__(), *self._fields()})
