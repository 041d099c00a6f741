# SPDX-License-Identifier: Apache-2.0
"""The C library: where it is, its structures and its functions, as include/weft/*.h declares them.

ctypes lets go of the interpreter's lock during every call. tests/python/test_abi.py holds the structures to the headers.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t
from ctypes import c_uint32, c_uint64, c_void_p, sizeof
from typing import Callable, Dict, Optional, Tuple

from . import errors

ATTENTION, ATTENTION_BACKWARD, GEMM, COMBINE, GROUPED_GEMM = 1, 2, 3, 4, 5  # enum weft_operation
MOST_PARTS = 16  # WEFT_MOST_PARTS
EXTRAS = {  # enum weft_attention_extras, by the fields of an attention's data
    "sinks": 1, "alibi": 2, "bias": 4, "q_starts": 8, "q_used": 16, "kv_used": 32, "kv_pad": 64, "kv_starts": 128, "max": 256,
    "block_starts": 512, "tree": 1024, "qv": 2048,
}  # fmt: skip
BIAS_DTYPE, BIAS_FP32, BIAS_BOOL = 0, 1, 2  # enum weft_bias_type
ACTIVATIONS = ("identity", "relu", "gelu", "gelu_tanh", "silu")  # enum weft_activation
GEMM_EXTRAS = {"bias": 1, "residual": 2, "scale": 4, "row_scale": 8, "column_scale": 16, "column_sums": 32}  # enum weft_gemm_extras
CPU, CUDA = 0, 1  # enum weft_device_kind
DEVICE_MEMORY = 1  # WEFT_DEVICE_MEMORY of a transport

_TYPES = {
    "char": c_char, "char*": c_char_p, "double": c_double, "int": c_int, "int32": c_int32, "int64": c_int64, "size": c_size_t,
    "uint32": c_uint32, "uint64": c_uint64, "void*": c_void_p,
}  # fmt: skip


def _type(name: str):
    """The ctypes type of a C type: one of _TYPES, a structure of this file, a pointer to either, or an array."""
    if name in _TYPES:
        return _TYPES[name]
    if name.endswith("]"):
        element, count = name[:-1].split("[")
        return _type(element) * int(count)
    return POINTER(_type(name[:-1])) if name.endswith("*") else globals()[name]


def _fields(text: str):
    """The _fields_ of a structure from its declarations: "int64 seq kv_seq; double scale"."""
    declarations = (declaration.split() for declaration in text.split(";"))
    return [(name, _type(kind)) for kind, *names in declarations for name in names]


class Message(Structure):
    _fields_ = _fields("char[256] text")


class Sized(Structure):
    """A structure that begins with its size, so that fields can be added at its end."""

    def __init__(self, *values, **fields):
        super().__init__(sizeof(type(self)), *values, **fields)


_SIZED = "size struct_size;"
_HEAD = f"{_SIZED} int32 operation;"  # what a problem and its data begin with: see head()
PROGRESS = ctypes.CFUNCTYPE(None, c_void_p, c_int64, c_int64)  # a weft_progress: `user`, done, total
_TYPES["TUNE_PROGRESS"] = TUNE_PROGRESS = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)  # takes `user` and a TuneState

# Every other structure with its fields; weft_plan_options is PlanOptions here.
STRUCTURES = {
    "Strides": "int64 batch seq head",
    "Lengths": "int32* q_starts kv_starts q_used kv_used kv_pad",
    "Pairs": "int32* block_starts block_list block_bits_at; uint32* block_bits; uint64* tree",
    "KvCache": (
        "int64 page pages table_stride append; Strides k_new_strides v_new_strides; int64 rotary_dim rotary_rows; "
        "int32 rotary_interleaved dtype; int32* new_starts"
    ),
    "KvCacheData": "int32* table; void* k_new v_new; int32* new_starts; void* cos sin; int32* positions",
    "Attention": (
        f"{_HEAD} int64 batch heads kv_heads seq kv_seq head_dim; int dtype mask; int64 offset; double scale; int layout; "
        "Strides q_strides k_strides v_strides o_strides; int64 left right chunk prefix head_dim_v; double softcap dropout; "
        "int32 extras bias_type; Strides bias_strides; int64 bias_key_stride alibi_stride sequences; Lengths lengths; "
        "int64 block_rows block_columns block_batch_stride block_head_stride block_entries block_bitmaps; Pairs pairs; "
        "KvCache cache; Strides qv_strides; int64 q_most; int32 o_dtype"
    ),
    "Gemm": (
        f"{_HEAD} int64 m n k; int dtype c_dtype a_major b_major c_major; int64 lda ldb ldc; double alpha beta; "
        "int64 batch a_stride b_stride c_stride; int32 extras activation gated; int bias_dtype; int64 ld_residual residual_stride; "
        "int32 precision"
    ),
    "Combine": f"{_HEAD} int64 parts batch heads seq head_dim; int dtype o_dtype layout; Strides part_strides o_strides; "
    "int32 into sum; int64 lse_stride",
    "GroupedGemm": (
        f"{_HEAD} int64 groups rows n k; int dtype c_dtype layout b_major; int64 lda ldb ldc b_stride a_stride c_stride; double alpha; "
        "int32* starts counts"
    ),
    "AttentionData": (
        f"{_HEAD} void* q k v o lse sinks alibi bias max; Lengths lengths; uint64 dropout_seed; Pairs pairs; "
        "KvCacheData cache; void* workspace qv; int32 prepared"
    ),
    "AttentionGradients": (
        f"{_HEAD} void* q k v grad_o grad_q grad_k grad_v o lse sinks alibi bias grad_sinks; Lengths lengths; uint64 dropout_seed; "
        "Pairs pairs; void* workspace grad_bias"
    ),
    "GemmData": f"{_HEAD} void* a b c bias residual scale row_scale column_scale column_sums function user workspace",
    "GroupedGemmData": f"{_HEAD} void* a b c starts counts",
    "CombineData": f"{_HEAD} void*[{MOST_PARTS}] parts lses; void* o lse",
    "Schedule": (
        f"{_SIZED} int64 tile_m tile_n tile_k; int32 order sweep dispatch table; int64 workers group; int axis; "
        "int64 domains cluster_m cluster_n split; uint32* order_table; int64 order_count; uint64 order_hash; int64[5] reserved"
    ),
    "Device": f"{_SIZED} int kind; int32 index; char* kernel; int mode",
    "Machine": (
        f"{_SIZED} char[32] name; char[96] title; int64 workers domains handout handout_run; double clock; "
        "int64 shared_bytes l2_bytes l2_line l2_sector l2_ways l2_replacement l2_home; "
        "double l2_usable l2_slack l2_crowded; int64 l2_write; double l2_bandwidth; int64 llc_bytes; "
        "double llc_bandwidth dram_bandwidth near_latency far_latency dram_latency matrix_fp32 matrix_fp16 matrix_bf16; "
        "double exp_rate; int64 gpcs gpc_workers; char[32] attention_profile backward_profile gemm_profile; double matrix_fp8; "
        "char[96] aliases; int64 l2_queue; double l2_waiting launch; int64 link_topology link_gpus; "
        "double link_bandwidth link_latency network_bandwidth network_latency"
    ),
    "Profile": (
        f"{_SIZED} char[32] name; char[96] title; int64 stages; double early spread_step spread_tile spread_load merge matrix overlap; "
        "double step_cycles launch prologue epilogue hidden clock spread_kept; int64 dq_pass; double trips score_cycles beside; int64 in_turn; "
        "double told; int64 runs"
    ),
    "PlanOptions": f"{_SIZED} Schedule* schedule; Machine* machine; Device* device; int32 brings_workspace",
    "Tuned": f"{_SIZED} Schedule schedule; double seconds spread; int64 runs date; int32 whole",
    "TuneState": (
        f"{_SIZED} int64 candidates same dropped; double dropped_from; int64 refused untimed racing runs disturbed; "
        "double elapsed left; Tuned* best; double estimate"
    ),
    "TuneOptions": (
        f"{_SIZED} double seconds behind patience; int32 exhaustive again forgetful; Schedule* also; size also_count; "
        "TUNE_PROGRESS progress; void* candidate user"
    ),
    "MachineValue": f"{_SIZED} char* section key unit text; char[96] value; char[160] source",
    "Traffic": (
        f"{_SIZED} uint64 sectors sectors_from_sm hits misses fabric_sectors llc_hits dram_read_bytes dram_write_bytes added waited; "
        "uint64[5] reserved"
    ),
    "SimulateOptions": f"{_SIZED} double drift; uint64 seed; int64 stages; uint64 limit; void* progress progress_user; Profile* profile; "
    "int32* page_table",
    "Simulation": (
        f"{_SIZED} Traffic total; uint64 compulsory_misses piece_visits; double seconds tflops elapsed_seconds; uint64 seed; "
        "double simulated; char[32] profile"
    ),
    "SearchOptions": f"{_SIZED} int space; SimulateOptions* simulate; void* progress progress_user; uint64 steps; int cost",
    "Ranked": f"{_SIZED} Schedule schedule given; uint64 limit; Simulation simulation; double model",
    "SearchSummary": f"{_SIZED} int64 count schedules searched last; int32 whole has_baseline is_plain; int cost; char* rule",
    "CurvePoint": "int64 l2_bytes; uint64 misses",
    "Bounds": f"{_SIZED} double products exponentials steps l2 dram waves",
    "TraceOptions": (
        f"{_SIZED} char* name; int64 workers; int32 dispatch; int64 cluster run rows cols; double flops step_seconds; char* profile; void* progress progress_user"
    ),
    "Transport": f"{_SIZED} void* self; int32 rank size on_device; void* send receive test cancel begin end words",
    "Ranks": f"{_SIZED} int64 ranks; int32 cut exchange order sweep; int64 head_ranks columns most_keys",
    "Chunk": "int64 begin count stride",
    "DistOptions": f"{_SIZED} Ranks* ranks; Transport* transport; Device* device; Schedule* schedule; double seconds",
    "NcclOptions": f"{_SIZED} Device* device; void* comm id; int32 rank size; Transport* words; double seconds",
    "DistRunOptions": f"{_SIZED} void* stream kept",
    "DistTraffic": f"{_SIZED} uint64 sent received messages",
    "TraceColumns": (
        f"{_SIZED} size count; void* worker tile step tensor block bytes kind time; char** names; size name_count"
    ),
    "PlotTick": "double at; char* name",
    "PlotLine": "char* name; double* x y; size count",
    "Plot": f"{_SIZED} char* title x_name y_name; PlotTick* ticks; size tick_count; PlotLine* lines; size line_count; int32 x_log y_log",
    "Rate": "char[32] text",
    "OrderInfo": "char* name text; int grid parameter",
    "Name": "char* name text",
    "Divisor": "uint64 value multiplier; uint32 shift",
    "Grid": "int64 batch rows cols",
    "Order": (
        "int32 kind axis; Grid grid; int64 count group domains bands; "
        "Divisor by_batch by_rows by_cols by_domains by_band by_group by_last_group; uint32* table"
    ),
    "Slice": "int64 row_begin row_end column_begin column_end low high",
    "Rows": "int64 begin end",
    "Sequences": "Lengths lengths; int64 count queries keys; int32 packed; int64 keys_each append; int32* new_starts",
    "Sequence": "Rows rows; int64 used_end; Rows columns",
    "Band": "int64 left right offset chunk prefix; int32 from_end",
    "Blocks": "Pairs pairs; int64 rows columns batch_stride head_stride entries bitmaps last; Divisor by_rows by_steps",
    "Reach": (
        "int64 rows columns tile_rows tile_columns lead; Slice slice; int32 kind; Divisor by_tile_columns by_tile_rows; "
        "void* slices first_slice; Band band; Sequences sequences; int32 transposed joined turned; Blocks blocks; "
        "int64 parts; Divisor by_parts"
    ),
    "Walk": (
        "Order order; int32 sweep dispatch visits; int64 cluster_rows cluster_cols cols workers; Divisor by_workers; "
        "Reach reach; void* comings next firsts"
    ),
}
for _name, _text in STRUCTURES.items():
    _base = Sized if _text.startswith(_SIZED) and not _text.startswith(_HEAD) else Structure
    globals()[_name] = type(_name, (_base,), {"_fields_": _fields(_text)})

_STATUS_FUNCTIONS = {  # each takes a message besides, last
    "weft_problem_check": "void*",
    "weft_plan_create": "void** void* PlanOptions*",
    "weft_plan_enqueue": "void* void* void*",
    "weft_plan_prepare": "void* void* void*",
    "weft_plan_check": "void*",
    "weft_plan_positions": "void* PlanOptions* Grid*",
    "weft_tune": "void* Schedule* Device* TuneOptions* Tuned* TuneState*",
    "weft_machine_load": "Machine* char*",
    "weft_machine_parse": "Machine* char* size char*",
    "weft_machine_host": "Machine*",
    "weft_machine_gpu": "Machine* int32",
    "weft_machine_values": "char* Machine* MachineValue* size size*",
    "weft_profile_load": "Profile* char*",
    "weft_profile_parse": "Profile* char* size char*",
    "weft_profile_values": "char* Profile* MachineValue* size size*",
    "weft_plot_write": "Plot* char*",
    "weft_simulate": "void* SimulateOptions* Simulation* Traffic*",
    "weft_simulate_bounds": "void* SimulateOptions* Bounds*",
    "weft_simulate_curve": "void* SimulateOptions* CurvePoint* size",
    "weft_search_run": "void** void* PlanOptions* SearchOptions*",
    "weft_search_summarize": "void* SearchSummary*",
    "weft_search_row": "void* size Ranked*",
    "weft_search_baseline": "void* Ranked*",
    "weft_trace_read": "void** char* TraceOptions*",
    "weft_trace_create": "void** TraceColumns* TraceOptions*",
    "weft_simulate_source": "void* Machine* SimulateOptions* Simulation* Traffic*",
    "weft_simulate_source_curve": "void* Machine* SimulateOptions* CurvePoint* size",
    "weft_threads_create": "void** int32",
    "weft_threads_transport": "void* int32 Transport*",
    "weft_nccl_id_make": "void*",
    "weft_nccl_open": "void** NcclOptions* Transport*",
    "weft_dist_create": "void** void* DistOptions*",
    "weft_dist_run": "void* void* DistRunOptions*",
    "weft_dist_expect": "void* int64 int32 DistTraffic*",
}
_OTHER_FUNCTIONS = {  # what it gives, and what it takes
    "weft_version": ("char*", ""),
    "weft_release_memory": ("size", ""),
    "weft_problem_flops": ("double", "void*"),
    "weft_plan_destroy": (None, "void*"),
    "weft_plan_schedule": ("Schedule", "void*"),
    "weft_plan_walk": ("Walk*", "void* size"),
    "weft_plan_workspace": ("size", "void*"),
    "weft_plan_text": ("size", "void* char* size"),
    "weft_plan_json": ("size", "void* char* size"),
    "weft_rate_text": ("Rate", "double"),
    "weft_waiting_share": ("double", "Simulation*"),
    "weft_search_destroy": (None, "void*"),
    "weft_search_why": ("size", "void* size char* size"),
    "weft_search_elsewhere": ("size", "void* char* char* size"),
    "weft_search_name": ("size", "Ranked* char* size"),
    "weft_elsewhere_name": ("char*", "size"),
    "weft_trace_destroy": (None, "void*"),
    "weft_trace_source": ("void*", "void*"),
    "weft_trace_records": ("uint64", "void*"),
    "weft_machine_name": ("char*", "size"),
    "weft_profile_name": ("char*", "size"),
    "weft_order_describe": ("OrderInfo*", "int32"),
    "weft_sweep_describe": ("Name*", "int32"),
    "weft_dispatch_describe": ("Name*", "int32"),
    "weft_threads_destroy": (None, "void*"),
    "weft_nccl_close": (None, "void*"),
    "weft_nccl_is_aborted": ("int32", "void*"),
    "weft_dist_destroy": (None, "void*"),
    "weft_dist_ranks": ("Ranks", "void*"),
    "weft_dist_rows": ("int64", "void* int64 int32"),
    "weft_dist_chunk": ("int", "void* int64 int32 int64 Chunk*"),
    "weft_dist_kept": ("size", "void*"),
    "weft_dist_counted": (None, "void* DistTraffic*"),
    "weft_rank_cut_name": ("char*", "int32"),
    "weft_exchange_name": ("char*", "int32"),
    "weft_rank_order_describe": ("Name*", "int32"),
    "weft_rank_cut_find": ("int32", "char*"),
    "weft_exchange_find": ("int32", "char*"),
    "weft_rank_order_find": ("int32", "char*"),
}


def path_of(name: str) -> str:
    """Where pip puts a compiled file: beside this one, or, in an editable installation, in the package's other folder."""
    paths = [os.path.join(folder, name) for folder in sys.modules[__package__].__path__]
    return next(filter(os.path.exists, paths), paths[0])


def variable(name: str) -> Optional[str]:
    """An environment variable that names a library; None in a process with rights that its caller has not."""
    has_others_rights = (os.getuid(), os.getgid()) != (os.geteuid(), os.getegid())
    return None if has_others_rights else os.environ.get(name)


def _load() -> ctypes.CDLL:
    """The library that the variable WEFT_LIBRARY names, or the one that pip installs."""
    path = variable("WEFT_LIBRARY") or path_of("libweft.so")
    if not os.path.exists(path):
        raise ImportError(f"weft: there is no library at {path}: run `pip install .`, or name one in WEFT_LIBRARY")
    library = ctypes.CDLL(path)
    functions = {name: ("int", f"{takes} Message*") for name, takes in _STATUS_FUNCTIONS.items()}
    for name, (gives, takes) in {**functions, **_OTHER_FUNCTIONS}.items():
        getattr(library, name).argtypes = [_type(kind) for kind in takes.split()]
        getattr(library, name).restype = gives and _type(gives)
    return library


library = _load()


def call(function, *arguments) -> None:
    """Calls a function that takes a message last; raises what its status stands for."""
    message = Message()
    status = function(*arguments, byref(message))
    if status:
        text = message.text.decode(errors="replace")
        raise errors.BY_STATUS.get(status, errors.Failed)(text or "the library gives no reason")


def head(structure, operation: int) -> tuple:
    """The values of the fields that a problem and its data begin with; of another structure none."""
    return (sizeof(structure), operation) if structure._fields_[0][0] == "struct_size" else ()


def words(structure) -> Dict[str, str]:
    """The fields of an operation's data behind its head, each a word, with what struct calls it: those of a structure in it count one by
    one, and so do the elements of an array."""

    def within(field, kind) -> Dict[str, str]:
        if hasattr(kind, "_fields_"):
            return words(kind)
        form = "i4x" if kind is c_int32 else "P"  # a number takes a word, too
        return {f"{field}[{i}]": form for i in range(kind._length_)} if hasattr(kind, "_length_") else {field: form}

    fields = structure._fields_[len(head(structure, 0)) :]
    return {name: form for field in fields for name, form in within(*field).items()}


@functools.lru_cache(maxsize=256)
def packer(structure, operation: int, names: Tuple[str, ...]) -> Callable[..., bytes]:
    """A function that packs the words of these names as C lays them out, all others 0. A Structure would take three times as long."""
    all_words = words(structure)
    order = sorted(range(len(names)), key=lambda i: list(all_words).index(names[i]))
    given = set(names)
    forms = (form if word in given else "8x" for word, form in all_words.items())
    pack = functools.partial(struct.Struct("@Ni0P" + "".join(forms)).pack,
                             *head(structure, operation))  # fmt: skip
    return pack if order == list(range(len(names))) else lambda *values: pack(*(values[i] for i in order))


def problem(structure, operation: int, **fields):
    """A problem of an operation."""
    return structure(*head(structure, operation), **fields)


def array(structure, count: int):
    """An array of structures, each as its own __init__ makes it."""
    return (structure * count)(*(structure() for _ in range(count)))
