"""Machines: what a chip has, each number with where it comes from."""

from __future__ import annotations

import ctypes
import os
from typing import List, NamedTuple, Optional, Union

from . import _c
from .errors import Invalid


class Value(NamedTuple):
    """One value of a machine as text, with its unit, where it comes from and what it means."""

    section: str
    key: str
    value: str
    unit: str
    source: str
    text: str


class Machine:
    """A machine: a built-in one by name ("h200"), or a machine file by path (anything with a "/" or ending in ".ini").

    Its numbers are attributes: machine.workers, machine.l2_bytes, machine.dram_bandwidth, ... (include/weft/machine.h has them
    all, with their units).
    """

    def __init__(self, name: Union[str, "os.PathLike[str]"]):
        self._c = _c.Machine()
        self._origin: Optional[str] = os.fspath(name)
        _c.call(_c.library.weft_machine_load, ctypes.byref(self._c), os.fsencode(name))

    @classmethod
    def _bare(cls) -> "Machine":
        machine = cls.__new__(cls)
        machine._c, machine._origin = _c.Machine(), None
        return machine

    @classmethod
    def host(cls) -> "Machine":
        """This host's CPU: cores as workers, its largest shared cache as the L2."""
        machine = cls._bare()
        _c.call(_c.library.weft_machine_host, ctypes.byref(machine._c))
        return machine

    @classmethod
    def gpu(cls, index: int = 0) -> "Machine":
        """A live GPU, as its driver describes it. Raises weft.NotFound where there is none."""
        machine = cls._bare()
        _c.call(_c.library.weft_machine_gpu, ctypes.byref(machine._c), index)
        return machine

    @classmethod
    def parse(cls, text: str, label: str = "text") -> "Machine":
        """A machine from what a machine file holds; `label` stands for the file's name in messages."""
        machine, data = cls._bare(), text.encode()
        _c.call(_c.library.weft_machine_parse, ctypes.byref(machine._c), data, len(data), label.encode())
        return machine

    @staticmethod
    def names() -> List[str]:
        """The built-in machines."""
        names: List[str] = []
        while _c.library.weft_machine_name(len(names)):
            names.append(_c.library.weft_machine_name(len(names)).decode())
        return names

    def values(self) -> List[Value]:
        """Every value with its unit and its source; for machines that come from a file or a name."""
        if self._origin is None:
            raise Invalid(f"{self.name} comes from no file, so its values have no sources")
        values, count, name = _c.array(_c.MachineValue, 256), ctypes.c_size_t(), self._origin.encode()
        _c.call(_c.library.weft_machine_values, name, None, values, len(values), ctypes.byref(count))
        fields = ("section", "key", "value", "unit", "source", "text")
        rows = values[: min(count.value, len(values))]
        return [Value(*((getattr(row, field) or b"").decode() for field in fields)) for row in rows]

    def replace(self, **numbers: float) -> "Machine":
        """A copy with some numbers changed: machine.replace(l2_bytes=96 << 20)."""
        machine = Machine._bare()
        ctypes.pointer(machine._c)[0] = self._c
        for name, number in numbers.items():
            if name not in _NUMBERS:
                raise Invalid(f"a machine has no number {name!r}: {', '.join(_NUMBERS)}")
            setattr(machine._c, name, number)
        return machine

    def __getattr__(self, name: str):
        if name in _FIELDS:
            value = getattr(self._c, name)
            return value.decode() if isinstance(value, bytes) else value
        raise AttributeError(f"a machine has no {name!r}")

    def __dir__(self):
        return sorted({*super().__dir__(), *_FIELDS})

    def __repr__(self) -> str:
        l2 = self.l2_bytes / 2**20
        return f"<weft.Machine {self.name}: {self.title}, {self.workers} workers, {self.domains} x {l2:g} MiB of L2>"


_FIELDS = [name for name, _ in _c.Machine._fields_ if name != "struct_size"]
_NUMBERS = [name for name in _FIELDS if name not in ("name", "title", "aliases")]
MachineLike = Union[Machine, str, "os.PathLike[str]", None]


def of(machine: MachineLike) -> Optional[Machine]:
    """A Machine from what a caller may give: one, a name, a path, or None."""
    return machine if machine is None or isinstance(machine, Machine) else Machine(machine)
