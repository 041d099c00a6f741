"""The C library: where it is, its structures and its functions, as include/weft/*.h declares them.

ctypes lets go of the interpreter's lock during every call. tests/python/test_abi.py holds the structures to the headers.
"""

from __future__ import annotations

import ctypes
import os
import sys
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t
from ctypes import c_uint32, c_uint64, c_void_p

from . import errors


class Message(Structure):
    _fields_ = [("text", c_char * 256)]


class Strides(Structure):
    _fields_ = [("batch", c_int64), ("seq", c_int64), ("head", c_int64)]


class Attention(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("batch", c_int64), ("heads", c_int64), ("kv_heads", c_int64), ("seq", c_int64),
        ("kv_seq", c_int64), ("head_dim", c_int64), ("dtype", c_int), ("mask", c_int), ("offset", c_int64), ("scale", c_double),
        ("layout", c_int), ("q_strides", Strides), ("k_strides", Strides), ("v_strides", Strides), ("o_strides", Strides),
    ]  # fmt: skip


class Gemm(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("m", c_int64), ("n", c_int64), ("k", c_int64), ("dtype", c_int), ("c_dtype", c_int),
        ("a_major", c_int), ("b_major", c_int), ("c_major", c_int), ("lda", c_int64), ("ldb", c_int64), ("ldc", c_int64),
        ("alpha", c_double), ("beta", c_double), ("batch", c_int64), ("a_stride", c_int64), ("b_stride", c_int64),
        ("c_stride", c_int64),
    ]  # fmt: skip


class AttentionData(Structure):
    _fields_ = [("q", c_void_p), ("k", c_void_p), ("v", c_void_p), ("o", c_void_p), ("lse", c_void_p)]


class AttentionGradients(Structure):
    _fields_ = [(name, c_void_p) for name in ("q", "k", "v", "grad_o", "grad_q", "grad_k", "grad_v", "o", "lse")]


class GemmData(Structure):
    _fields_ = [("a", c_void_p), ("b", c_void_p), ("c", c_void_p)]


class Schedule(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("tile_m", c_int64), ("tile_n", c_int64), ("tile_k", c_int64), ("order", c_int32),
        ("sweep", c_int32), ("dispatch", c_int32), ("table", c_int32), ("workers", c_int64), ("group", c_int64),
        ("axis", c_int), ("domains", c_int64), ("cluster_m", c_int64), ("cluster_n", c_int64),
        ("split", c_int64),
    ]  # fmt: skip


class Device(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("kind", c_int), ("index", c_int32), ("kernel", c_char_p),
        ("mode", c_int),
    ]  # fmt: skip


class Tuned(Structure):
    _fields_ = [
        ("schedule", Schedule), ("seconds", c_double), ("spread", c_double), ("runs", c_int64), ("date", c_int64),
        ("whole", c_int32),
    ]  # fmt: skip


class TuneState(Structure):
    _fields_ = [
        ("candidates", c_int64), ("same", c_int64), ("dropped", c_int64), ("dropped_from", c_double), ("refused", c_int64),
        ("untimed", c_int64), ("racing", c_int64), ("runs", c_int64), ("disturbed", c_int64), ("elapsed", c_double),
        ("left", c_double), ("best", POINTER(Tuned)), ("estimate", c_double),
    ]  # fmt: skip


TUNE_PROGRESS = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(TuneState))


class TuneOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("seconds", c_double), ("behind", c_double), ("patience", c_double), ("exhaustive", c_int32),
        ("again", c_int32), ("forgetful", c_int32), ("also", POINTER(Schedule)), ("also_count", c_size_t),
        ("progress", TUNE_PROGRESS), ("candidate", c_void_p), ("user", c_void_p),
    ]  # fmt: skip


class Machine(Structure):
    _fields_ = [
        ("name", c_char * 32), ("title", c_char * 96), ("workers", c_int64), ("domains", c_int64), ("handout", c_int64),
        ("handout_run", c_int64), ("clock", c_double), ("shared_bytes", c_int64), ("l2_bytes", c_int64), ("l2_line", c_int64), ("l2_sector", c_int64),
        ("l2_ways", c_int64), ("l2_replacement", c_int64), ("l2_home", c_int64), ("l2_usable", c_double), ("l2_slack", c_double),
        ("l2_crowded", c_double), ("l2_merge", c_double), ("l2_write", c_int64), ("l2_bandwidth", c_double), ("llc_bytes", c_int64),
        ("llc_bandwidth", c_double), ("dram_bandwidth", c_double), ("near_latency", c_double), ("far_latency", c_double),
        ("dram_latency", c_double), ("matrix_fp32", c_double), ("matrix_fp16", c_double), ("matrix_bf16", c_double),
        ("exp_rate", c_double), ("drift", c_double), ("drift_load", c_double),
    ]  # fmt: skip


class MachineValue(Structure):
    _fields_ = [
        ("section", c_char_p), ("key", c_char_p), ("unit", c_char_p), ("text", c_char_p), ("value", c_char * 96),
        ("source", c_char * 160),
    ]  # fmt: skip


class Traffic(Structure):
    _fields_ = [
        (name, c_uint64)
        for name in ("sectors", "sectors_from_sm", "hits", "misses", "fabric_sectors", "llc_hits", "dram_read_bytes",
                     "dram_write_bytes")
    ]  # fmt: skip


class SimulateOptions(Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("drift", c_double), ("seed", c_uint64), ("stages", c_int64), ("limit", c_uint64),
        ("progress", c_void_p), ("progress_user", c_void_p),
    ]  # fmt: skip


class Simulation(Structure):
    _fields_ = [
        ("total", Traffic), ("compulsory_misses", c_uint64), ("piece_visits", c_uint64), ("seconds", c_double),
        ("tflops", c_double), ("elapsed_seconds", c_double), ("seed", c_uint64), ("simulated", c_double),
    ]  # fmt: skip


class CurvePoint(Structure):
    _fields_ = [("l2_bytes", c_int64), ("misses", c_uint64)]


class OrderInfo(Structure):
    _fields_ = [("name", c_char_p), ("text", c_char_p), ("subject", c_int), ("parameter", c_int)]


class Name(Structure):
    _fields_ = [("name", c_char_p), ("text", c_char_p)]


class Divisor(Structure):
    _fields_ = [("value", c_uint64), ("multiplier", c_uint64), ("shift", c_uint32)]


class Grid(Structure):
    _fields_ = [("batch", c_int64), ("rows", c_int64), ("cols", c_int64)]


class Order(Structure):
    _fields_ = [
        ("kind", c_int32), ("axis", c_int32), ("grid", Grid), ("count", c_int64), ("group", c_int64), ("domains", c_int64),
        ("bands", c_int64), ("by_batch", Divisor), ("by_rows", Divisor), ("by_cols", Divisor), ("by_domains", Divisor),
        ("by_band", Divisor), ("by_group", Divisor), ("by_last_group", Divisor), ("table", POINTER(c_uint32)),
    ]  # fmt: skip


class Walk(Structure):
    """The first fields of weft_walk: what a picture of the order needs."""

    _fields_ = [
        ("order", Order), ("sweep", c_int32), ("dispatch", c_int32), ("halves", c_int32), ("cluster_rows", c_int64),
        ("cluster_cols", c_int64), ("cols", c_int64), ("workers", c_int64),
    ]  # fmt: skip


_MESSAGE = POINTER(Message)
_STATUS_FUNCTIONS = {
    "weft_attention_check": [POINTER(Attention)],
    "weft_gemm_check": [POINTER(Gemm)],
    "weft_attention_backward": [POINTER(Attention), POINTER(AttentionGradients)],
    "weft_plan_attention_on": [POINTER(c_void_p), POINTER(Attention), POINTER(Schedule), POINTER(Machine), POINTER(Device)],
    "weft_plan_gemm_on": [POINTER(c_void_p), POINTER(Gemm), POINTER(Schedule), POINTER(Machine), POINTER(Device)],
    "weft_plan_enqueue_attention": [c_void_p, POINTER(AttentionData), c_void_p],
    "weft_plan_enqueue_gemm": [c_void_p, POINTER(GemmData), c_void_p],
    "weft_tune_attention": [POINTER(Attention), POINTER(Schedule), POINTER(Device), POINTER(TuneOptions), POINTER(Tuned), POINTER(TuneState)],
    "weft_tune_gemm": [POINTER(Gemm), POINTER(Schedule), POINTER(Device), POINTER(TuneOptions), POINTER(Tuned), POINTER(TuneState)],
    "weft_machine_load": [POINTER(Machine), c_char_p],
    "weft_machine_parse": [POINTER(Machine), c_char_p, c_size_t, c_char_p],
    "weft_machine_gpu": [POINTER(Machine), c_int32],
    "weft_machine_values": [c_char_p, POINTER(Machine), POINTER(MachineValue), c_size_t, POINTER(c_size_t)],
    "weft_simulate": [c_void_p, POINTER(SimulateOptions), POINTER(Simulation), POINTER(Traffic)],
    "weft_simulate_curve": [c_void_p, POINTER(SimulateOptions), POINTER(CurvePoint), c_size_t],
}
_OTHER_FUNCTIONS = {
    "weft_version": (c_char_p, []),
    "weft_release_memory": (c_size_t, []),
    "weft_attention_flops": (c_double, [POINTER(Attention)]),
    "weft_gemm_flops": (c_double, [POINTER(Gemm)]),
    "weft_plan_destroy": (None, [c_void_p]),
    "weft_plan_schedule": (Schedule, [c_void_p]),
    "weft_plan_walk": (POINTER(Walk), [c_void_p]),
    "weft_plan_text": (c_size_t, [c_void_p, c_char_p, c_size_t]),
    "weft_plan_json": (c_size_t, [c_void_p, c_char_p, c_size_t]),
    "weft_machine_host": (None, [POINTER(Machine)]),
    "weft_machine_name": (c_char_p, [c_size_t]),
    "weft_order_describe": (POINTER(OrderInfo), [c_int32]),
    "weft_sweep_describe": (POINTER(Name), [c_int32]),
    "weft_dispatch_describe": (POINTER(Name), [c_int32]),
}


def path_of(name: str) -> str:
    """Where pip puts a compiled file: beside this one, or, in an editable installation, in the package's other folder."""
    paths = [os.path.join(folder, name) for folder in sys.modules[__package__].__path__]
    return next(filter(os.path.exists, paths), paths[0])


def _load() -> ctypes.CDLL:
    """The library that the variable WEFT_LIBRARY names, or the one that pip installs."""
    path = os.environ.get("WEFT_LIBRARY") or path_of("libweft.so")
    if not os.path.exists(path):
        raise ImportError(f"weft: there is no library at {path}: run `pip install .`, or name one in WEFT_LIBRARY")
    library = ctypes.CDLL(path)
    for name, arguments in _STATUS_FUNCTIONS.items():
        getattr(library, name).argtypes = [*arguments, _MESSAGE]
        getattr(library, name).restype = c_int
    for name, (result, arguments) in _OTHER_FUNCTIONS.items():
        getattr(library, name).argtypes = arguments
        getattr(library, name).restype = result
    return library


library = _load()


def call(function, *arguments) -> None:
    """Calls a function that takes a message last; raises what its status stands for."""
    message = Message()
    status = function(*arguments, byref(message))
    if status:
        text = message.text.decode(errors="replace")
        raise errors.BY_STATUS.get(status, errors.Failed)(text or "the library gives no reason")
