# SPDX-License-Identifier: Apache-2.0
"""Machines: what a chip has, each number with where it comes from."""

from __future__ import annotations

import ctypes
import os
from typing import Optional, Union

from . import _c, notebook
from .sheets import Sheet


class Machine(Sheet, notebook.Shown):
    """A machine: a built-in one by name ("h200"), or a machine file by path (anything with a "/" or ending in ".ini").

    Its numbers are attributes: machine.workers, machine.l2_bytes, machine.dram_bandwidth, ... (include/weft/machine.h has them
    all, with their units).

    >>> weft.Machine("h200")
    <weft.Machine h200: NVIDIA H200 SXM, 132 workers, 2 x 30 MiB of L2>
    >>> larger = weft.Machine("h200").replace(l2_bytes=96 << 20)
    >>> larger.l2_bytes // 2**20, weft.Machine("h200").dram_bandwidth / 1e12
    (96, 4.8)
    """

    _noun, _structure = "machine", _c.Machine

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

    def __repr__(self) -> str:
        l2 = self.l2_bytes / 2**20
        return f"<weft.Machine {self.name}: {self.title}, {self.workers} workers, {self.domains} x {l2:.4g} MiB of L2>"


MachineLike = Union[Machine, str, "os.PathLike[str]", None]


def of(machine: MachineLike) -> Optional[Machine]:
    """A Machine from what a caller may give: one, a name, a path, or None."""
    return machine if machine is None or isinstance(machine, Machine) else Machine(machine)
