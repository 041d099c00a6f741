# SPDX-License-Identifier: Apache-2.0
"""Traces: what a kernel of your own reads and writes, block by block, simulated. docs/own-kernel.md explains the columns."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, List, Optional, Sequence, Tuple, Union

from . import _c, machines, profiles, schedules, simulation
from .errors import Invalid

_READ, _WRITE = 0, 1  # enum weft_access_kind
_KINDS = {"read": _READ, "write": _WRITE, "add": 2}
# The columns of a binary trace, in the order of its records, and what NumPy calls their types.
_BINARY = {"worker": "<u4", "tile": "<u4", "step": "<i4", "tensor": "<u2", "block": "<i8", "bytes": "<u4", "op": "u1", "time": "<f8"}


def _kinds(numpy: Any, write: Any) -> Any:
    """Numbers of what records do: from booleans (True is written), or from "read", "write" and "add"."""
    kinds = numpy.asarray(write)
    if kinds.dtype.kind in "US":
        words, numbers = numpy.unique(kinds.astype(str), return_inverse=True)
        unknown = [str(word) for word in words if word not in _KINDS]
        if unknown:
            raise Invalid(f"write {unknown[0]!r} is not read, write or add")
        return numpy.array([_KINDS[word] for word in words])[numbers]
    return kinds


def _tensors(numpy: Any, tensor: Any, names: Optional[Sequence[str]]) -> Tuple[Any, List[str]]:
    """Numbers of tensors and their names; tensors may be given by either."""
    given = numpy.asarray(tensor)
    if given.dtype.kind in "US":
        if names is not None:
            raise Invalid("tensor has names itself: names is for numbers")
        found, numbers = numpy.unique(given.astype(str), return_inverse=True)
        return numbers, [str(name) for name in found]
    most = int(given.max()) if given.size else 0
    return given, list(names) if names is not None else [f"tensor{i}" for i in range(most + 1)]


class Trace:
    """A trace, checked and ready to simulate, as arrays with one element for each record or as a single value for all.

    worker  who does it, or None: `tile` is handed out
    tile    which tile it is of, or None
    step    records of one step are requested together; None: every record is a step of its own
    tensor  names, or numbers of `names`
    block   a number
    bytes   of the block
    write   None: all are read; booleans; or "read", "write" and "add"
    time    seconds that a step computes, the most of its records; None: step_seconds

    workers, dispatch ("grid", "static", "dynamic"), cluster, run, grid (rows, columns) and flops: see docs/own-kernel.md.

    >>> trace = weft.Trace(worker=[0, 0, 1, 1], step=[0, 1, 0, 1], tensor="x", block=[0, 1, 0, 1], bytes=4096)
    >>> len(trace), trace.simulate("gb10").compulsory_misses
    (4, 256)
    """

    def __init__(self, worker=None, step=None, tensor=None, block=None, bytes=None, *, tile=None, write=None, time=None,
                 names: Optional[Sequence[str]] = None, name: str = "arrays", workers: int = 0, dispatch: Optional[str] = None,
                 cluster: int = 0, run: int = 0, grid: Optional[Tuple[int, int]] = None, flops: float = 0.0,
                 step_seconds: float = 0.0):  # fmt: skip
        import numpy

        if tensor is None or block is None or bytes is None:
            raise Invalid("a trace has tensor, block and bytes")
        numbers, self._names = _tensors(numpy, tensor, names)
        given = {"worker": worker, "tile": tile, "step": step, "tensor": numbers, "block": block, "bytes": bytes,
                 "op": None if write is None else _kinds(numpy, write)}  # fmt: skip
        arrays = {key: numpy.asarray(value) for key, value in given.items() if value is not None}
        for key, array in arrays.items():
            if array.dtype.kind not in "iub":
                raise Invalid(f"{'write' if key == 'op' else key} has {array.dtype} where whole numbers are needed")
        if time is not None:
            arrays["time"] = numpy.asarray(time, numpy.float64)
        types = {key: numpy.float64 if key == "time" else numpy.int64 for key in arrays}
        try:
            shaped = numpy.broadcast_arrays(*arrays.values())
        except ValueError:
            sizes = ", ".join(f"{key} {array.size}" for key, array in arrays.items())
            raise Invalid(f"the columns of a trace are equally long: {sizes}") from None
        self._columns = {key: numpy.ascontiguousarray(array.reshape(-1), types[key]) for key, array in zip(arrays, shaped)}
        self._settings = dict(workers=workers, dispatch=dispatch, cluster=cluster, run=run, grid=grid, flops=flops,
                              step_seconds=step_seconds)  # fmt: skip
        self._make(name)

    def _make(self, name: str) -> None:
        texts = (ctypes.c_char_p * len(self._names))(*(text.encode() for text in self._names))
        addresses = {"kind" if key == "op" else key: array.ctypes.data for key, array in self._columns.items()}
        count = len(self._columns["block"])
        columns = _c.TraceColumns(count=count, names=texts, name_count=len(texts), **addresses)
        rows, cols = self._settings["grid"] or (0, 0)
        numbers = {key: value for key, value in self._settings.items() if key not in ("grid", "dispatch")}
        dispatch = schedules._number("dispatch", self._settings["dispatch"])
        options = _c.TraceOptions(name=name.encode(), dispatch=dispatch, rows=rows, cols=cols, **numbers)
        self._take(_c.library.weft_trace_create, ctypes.byref(columns), ctypes.byref(options))

    def _take(self, function, *arguments) -> None:
        handle = ctypes.c_void_p()
        _c.call(function, ctypes.byref(handle), *arguments)
        self._handle = handle
        weakref.finalize(self, _c.library.weft_trace_destroy, handle)

    @classmethod
    def read(cls, path: Union[str, "os.PathLike[str]"]) -> "Trace":
        """A trace from a file, CSV or binary."""
        trace = cls.__new__(cls)
        trace._columns = None
        trace._take(_c.library.weft_trace_read, os.fsencode(path), None)
        return trace

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes a trace that was made of arrays as a binary file, for `weft simulate trace`."""
        import numpy

        if self._columns is None:
            raise Invalid("this trace is a file already")
        for key, array in self._columns.items():
            limits = None if key == "time" else numpy.iinfo(_BINARY[key])
            if limits and array.size and not limits.min <= array.min() <= array.max() <= limits.max:
                raise Invalid(f"{key} has numbers that a binary trace cannot hold")
        records = numpy.empty(len(self), [(key, kind) for key, kind in _BINARY.items() if key in self._columns])
        for key, array in self._columns.items():
            records[key] = array
        settings = {key.replace("_", "-"): value for key, value in self._settings.items() if value}
        if "grid" in settings:
            settings["grid"] = "x".join(map(str, settings["grid"]))
        words = ["#weft trace binary", "tensors=" + ",".join(self._names), *(f"{key}={value}" for key, value in settings.items())]
        with open(path, "wb") as file:
            file.write(f"{' '.join(words)}\n{','.join(records.dtype.names)}\n".encode())
            records.tofile(file)

    def __len__(self) -> int:
        """Records."""
        return _c.library.weft_trace_records(self._handle)

    def simulate(self, machine: machines.MachineLike = None, *, profile: profiles.ProfileLike = None,
                 drift: Optional[float] = None, seed: int = 1, stages: Optional[int] = None,
                 limit: int = 0) -> simulation.Simulation:  # fmt: skip
        """Predicts its L2 and DRAM traffic and its time on a machine. Options are those of weft.simulate()."""
        where = machines.of(machine) or machines.Machine.host()
        out, domains = _c.Simulation(), _c.array(_c.Traffic, max(1, where.domains))
        options = simulation.options(profile, drift, seed, stages, limit)
        _c.call(_c.library.weft_simulate_source, _c.library.weft_trace_source(self._handle), ctypes.byref(where._c),
                ctypes.byref(options), ctypes.byref(out), domains)  # fmt: skip
        return simulation.result(where, None, out, domains)

    def curve(self, machine: machines.MachineLike = None, *, count: int = 64) -> List[Tuple[int, int]]:
        """(bytes of one domain's L2, misses) for `count` sizes of the L2, from almost nothing to all of the data."""
        where, points = machines.of(machine) or machines.Machine.host(), simulation.curve_points(count)
        _c.call(_c.library.weft_simulate_source_curve, _c.library.weft_trace_source(self._handle), ctypes.byref(where._c),
                None, points, count)  # fmt: skip
        return [(point.l2_bytes, point.misses) for point in points]


def simulate_trace(worker=None, step=None, tensor=None, block=None, bytes=None, *, machine: machines.MachineLike = None,
                   profile: profiles.ProfileLike = None, drift: Optional[float] = None, seed: int = 1,
                   stages: Optional[int] = None, limit: int = 0, **columns) -> simulation.Simulation:  # fmt: skip
    """Simulates a kernel of your own: arrays with one element for each block that it reads or writes.

    The arguments are those of weft.Trace and of weft.simulate().

    >>> weft.simulate_trace(0, range(8), "x", range(8), 128, machine="gb10").misses
    32
    """
    trace = Trace(worker, step, tensor, block, bytes, **columns)
    return trace.simulate(machine, profile=profile, drift=drift, seed=seed, stages=stages, limit=limit)
