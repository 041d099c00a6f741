#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weft beside its peers: one table, every library in one process, in turns.

usage: peers.py [--device cpu|cuda] [--only GROUP,...] [--quick] [--draw SEED] [--graph | --settled] [--libraries NAME,...] [--library LIBWEFT]
                [--triton FILE] [--loops CUBIN] [--csv FILE] [--json FILE]

Attention: torch's cuDNN, flash (FlashAttention-2) and efficient backends, FlashAttention-3 where `flash_attn_interface` is importable,
Triton's fused attention where Triton still has one or --triton names its tutorial 06-fused-attention.py; weft's study kernel beside
weft's best. Matrix products: torch, which is cuBLAS on a GPU, and NumPy on the CPU; on a GPU B is the transposed
view of a row-major matrix. Inputs are random normal. Every result is checked first; a library that refuses a problem
is left out of its row, and which and why is said at the end. --draw adds 24 attentions and 20 products drawn at random, and those of
masked.py, pairwise.py and gradients.py, for claims about shapes that nothing was tuned on. Rates are medians: TFLOP/s, on the CPU GFLOP/s (4 B H Sq Sk D,
halved when causal; 2 m n k), for decode GB/s of K and V. `ratio` is weft's rate over the best peer's. Two columns are no peers: `plain`,
weft on the same problem without its softcap, slopes or sinks, which says what they cost, and `wgmma` and `mma`, the chip's own rates: loops
of nothing but wgmma and mma.sync (bench/loops.cu, built beside the benches), in the same turns. Exits 1 where a result is wrong.
"""
import argparse, contextlib, csv, ctypes, importlib, importlib.util, json, os, platform, random, statistics, sys

import torch
from gradients import Gradients, drawn as drawn_gradients, tuned as gradients
from masked import Masked, drawn as drawn_masked, tuned as masked
from pairwise import Pairwise, drawn as drawn_pairwise, tuned as pairwise
from timing import (geometric_mean, import_weft, interleave, interleave_cuda, interleave_graphs, interleave_settled,
                    largest_difference)  # fmt: skip

PRECISIONS = ("bf16x3", "tf32")  # of fp32, beside fp32 itself
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, **dict.fromkeys(PRECISIONS, torch.float32)}
MOST_DIFFERENCE = {"fp32": 1e-3, "fp16": 1e-2, "bf16": 3e-2, **dict.fromkeys(PRECISIONS, 3e-3)}
sdpa = torch.nn.functional.scaled_dot_product_attention


class Absent(Exception):
    """A peer is not here, or does not take a problem."""


def of_torch(backend):
    def make(weft, p):
        if p.seq != p.kv_seq and p.causal:
            raise Absent("torch aligns a causal mask to the top left")
        kind = getattr(torch.nn.attention.SDPBackend, backend)
        q, k, v = (x.transpose(1, 2) for x in p.tensors)

        def call():
            with torch.nn.attention.sdpa_kernel(kind):
                return sdpa(q, k, v, is_causal=p.causal, enable_gqa=p.heads != p.kv_heads).transpose(1, 2)

        return call

    return make


def flash_attention_3(weft, p):
    if p.seq < 128:
        raise Absent("for few queries it has flash_attn_with_kvcache")
    try:
        function = importlib.import_module("flash_attn_interface").flash_attn_func
    except ImportError as error:
        raise Absent(f"not importable: {error}") from None

    def call():
        o = function(*p.tensors, causal=p.causal)
        return o[0] if isinstance(o, tuple) else o

    return call


def triton_attention(weft, p):
    if p.heads != p.kv_heads or p.seq != p.kv_seq:
        raise Absent("takes neither grouped heads nor unlike lengths")
    if p.options.triton:
        spec = importlib.util.spec_from_file_location("triton_fused_attention", p.options.triton)
        if spec.name not in sys.modules:
            sys.modules[spec.name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[spec.name])
        function = sys.modules[spec.name].attention
    else:
        try:
            function = importlib.import_module("triton.ops.flash_attention").attention
        except ImportError as error:
            raise Absent(f"not importable: {error}; --triton names a file") from None
    q, k, v = (x.transpose(1, 2).contiguous() for x in p.tensors)
    return lambda: function(q, k, v, p.causal, p.head_dim**-0.5).transpose(1, 2)


def of_numpy(weft, p):
    import numpy

    if p.device != "cpu" or p.dtype != "fp32":
        raise Absent("multiplies fp32 on the CPU")
    a, b = (x.numpy() for x in p.tensors)
    return lambda: torch.from_numpy(numpy.matmul(a, b))


def weft_attention(weft, p):
    return lambda: weft.attention(*p.tensors, causal=p.causal)


def weft_study(weft, p):
    """weft's portable kernel, which has every knob of the studies."""
    forward = weft.compute.attention_forward
    return lambda: forward(*p.tensors, p.causal, None, None, "bshd", False, None, kernel="study")[0]


def precision_of(p):
    return p.dtype if p.dtype in PRECISIONS else "fp32"


def weft_matmul(weft, p):
    precision = precision_of(p)
    return (lambda: weft.matmul(*p.tensors)) if precision == "fp32" else lambda: weft.matmul(*p.tensors, precision=precision)


def weft_portable(weft, p):
    """weft's product for every chip from 8.0 on."""
    run, product, how = weft.compute.run, weft.operations.GEMM, weft.operations.GemmOptions(precision=precision_of(p))
    return lambda: run(product, tuple(p.tensors), how, None, "portable_gemm", ("c",))[0]


def cublas(weft, p):
    """fp32 as it is, or by TF32 where less is asked for."""
    by_tf32 = p.dtype in PRECISIONS

    def call():
        torch.backends.cuda.matmul.allow_tf32 = by_tf32
        return torch.matmul(*p.tensors)

    return call if DTYPES[p.dtype] == torch.float32 else lambda: torch.matmul(*p.tensors)


ATTENTION = {
    "cuda": {"weft": weft_attention, "study": weft_study, "cudnn": of_torch("CUDNN_ATTENTION"),
             "flash": of_torch("FLASH_ATTENTION"), "efficient": of_torch("EFFICIENT_ATTENTION"), "fa3": flash_attention_3,
             "triton": triton_attention},
    "cpu": {"weft": weft_attention, "flash": of_torch("FLASH_ATTENTION"), "math": of_torch("MATH")},
}  # fmt: skip
GEMM = {
    "cuda": {"weft": weft_matmul, "portable": weft_portable, "cublas": cublas},
    "cpu": {"weft": weft_matmul, "torch": lambda weft, p: lambda: torch.matmul(*p.tensors), "numpy": of_numpy},
}


class Loop:
    """A kernel of loops.cu on torch's current stream: a launch of about a millisecond."""

    ROUNDS = {"wgmma": 480, "mma": 1200}
    FLOPS = {"wgmma": 2 * 4 * 2 * 64 * 256 * 16, "mma": 8 * 64 * 2 * 16 * 8 * 16}  # of a round

    def __init__(self, path, name):
        self.driver, function = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        torch.zeros(1, device="cuda")  # torch's context is there now, and current
        self.check("cuModuleLoad", ctypes.byref(function), os.fsencode(path))
        self.check("cuModuleGetFunction", ctypes.byref(function), function, f"{name}_loop".encode())
        self.function, self.ctas = function, torch.cuda.get_device_properties().multi_processor_count
        self.sink, self.rounds = ctypes.c_void_p(), ctypes.c_uint32(self.ROUNDS[name])  # a null sink: it is not written
        self.amount = self.ctas * self.ROUNDS[name] * self.FLOPS[name] / 1e12

    def check(self, name, *arguments):
        result = getattr(self.driver, name)(*arguments)
        if result:
            sys.exit(f"peers.py: {name} of a loop gave {result}")

    def __call__(self):
        parameters = (ctypes.c_void_p * 2)(*(ctypes.addressof(x) for x in (self.rounds, self.sink)))
        self.check("cuLaunchKernel", self.function, self.ctas, 1, 1, 256, 1, 1, 0, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
                   parameters, None)  # fmt: skip


class Attention:
    """q (batch, seq, heads, head_dim), k and v (batch, kv_seq, kv_heads, head_dim)."""

    makers = ATTENTION

    def __init__(self, group, dtype, head_dim, seq, heads, kv_heads=None, kv_seq=None, batch=1, causal=False):
        self.group, self.dtype, self.head_dim, self.seq, self.heads, self.batch, self.causal = (
            group, dtype, head_dim, seq, heads, batch, causal)  # fmt: skip
        self.kv_heads, self.kv_seq = kv_heads or heads, kv_seq or seq
        self.name = f"{dtype} D={head_dim} B={batch} H={heads}/{self.kv_heads} S={seq}/{self.kv_seq}{' causal' if causal else ''}"
        self.unit, self.amount = "TFLOP/s", 4e-12 * batch * heads * seq * self.kv_seq * head_dim / (2 if causal else 1)
        if group == "decode":
            self.unit, self.amount = "GB/s", 2e-9 * batch * self.kv_heads * self.kv_seq * head_dim * DTYPES[dtype].itemsize

    def fill(self):
        shapes = [(self.seq, self.heads)] + [(self.kv_seq, self.kv_heads)] * 2
        self.tensors = [torch.randn(self.batch, s, h, self.head_dim, device=self.device).to(DTYPES[self.dtype]) for s, h in shapes]

    def reference(self):
        """(o, which part of it): by torch in fp32, of the first batch and kv head and the last queries only."""
        group, last = self.heads // self.kv_heads, min(self.seq, 256)
        q, k, v = (x[:1].float().transpose(1, 2) for x in self.tensors)
        q, k, v = q[:, :group, -last:], k[:, :1], v[:, :1]
        seen = torch.ones(last, self.kv_seq, dtype=torch.bool, device=q.device).tril(self.kv_seq - last) if self.causal else None
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            o = sdpa(q, k.expand(-1, group, -1, -1), v.expand(-1, group, -1, -1), attn_mask=seen)
        return o.transpose(1, 2), lambda x: x[:1, -last:, :group]


class Gemm:
    """a (m, k), b (k, n); with `transposed`, b is the view of an (n, k) matrix, as the weights of a layer are."""

    makers = GEMM

    def __init__(self, group, dtype, m, n=None, k=None, transposed=False):
        self.group, self.dtype, self.m, self.n, self.k, self.transposed = group, dtype, m, n or m, k or m, transposed
        self.name = f"{dtype} {m}^3" if not n else f"{dtype} {m}x{n}x{k}"
        self.unit, self.amount = "TFLOP/s", 2e-12 * self.m * self.n * self.k

    def fill(self):
        shapes = [(self.m, self.k), (self.n, self.k) if self.transposed else (self.k, self.n)]
        self.tensors = [torch.randn(*shape, device=self.device).to(DTYPES[self.dtype]) for shape in shapes]
        if self.transposed:
            self.tensors[1] = self.tensors[1].T

    def reference(self):
        a, b = self.tensors
        return a[-256:].double() @ b.double(), lambda x: x[-256:]


def attention_on_a_gpu(quick):
    """The lengths that FlashAttention's papers show, at 16K tokens or one sequence, and what they leave out."""
    lengths = (2048, 4096, 8192) if quick else (512, 1024, 2048, 4096, 8192, 16384, 32768)
    for head_dim in (64, 128):
        for causal in (False, True):
            for seq in lengths:
                yield Attention(f"D={head_dim}", "bf16", head_dim, seq, 2048 // head_dim, batch=max(1, 16384 // seq), causal=causal)
    for seq in (8192,) if quick else (8192, 16384, 32768):
        for causal in (False, True):
            yield Attention("grouped heads", "bf16", 128, seq, 64, 8, causal=causal)
    if not quick:
        for seq in (1024, 2048, 4096, 8192, 16384):
            yield Attention("batch of 4", "bf16", 128, seq, 32, batch=4, causal=True)
        yield Attention("long", "bf16", 128, 131072, 8)
        yield Attention("long", "bf16", 64, 131072, 1, batch=8)
        yield Attention("long", "bf16", 64, 131072, 1, batch=8, causal=True)
        yield Attention("D=256", "bf16", 256, 16384, 8)
        yield Attention("D=256", "bf16", 256, 16384, 8, causal=True)
        yield Attention("other head dims", "bf16", 56, 4096, 128)
        yield Attention("other head dims", "bf16", 96, 8192, 32, causal=True)


# head dim, heads, kv heads, keys, batch
DECODE = [(128, 32, 8, 8192, 8), (128, 32, 8, 65536, 8), (128, 64, 8, 8192, 16), (128, 64, 8, 131072, 1), (64, 32, 1, 65536, 1)]


def drawn_skinny(seed):
    """Products of few tiles and a long k."""
    draw = random.Random(seed)

    def between(low, high):
        return 8 * round(low * (high / low) ** draw.random() / 8)

    for _ in range(14):
        yield Gemm("skinny gemm", "bf16", between(64, 640), between(512, 2048), between(2048, 16384), transposed=True)


def drawn_products(seed):
    """60 products of sides that are drawn log-uniformly, a third of them no multiples of 64."""
    draw = random.Random(seed)

    def between(low, high, unit):
        return unit * max(round(low * (high / low) ** draw.random() / unit), 1)

    for i in range(60):
        unit = 8 if i % 3 == 0 else 64
        yield Gemm("60 products", "bf16", between(64, 16384, unit), between(512, 16384, unit), between(512, 16384, unit), transposed=True)


def drawn_odd(seed):
    """30 products of any sides, of 1 to 500 GFLOP each: lines of A and B begin anywhere."""
    draw, count = random.Random(seed), 0
    while count < 30:
        m, n, k = (round(least * (16384 / least) ** draw.random()) for least in (64, 512, 512))
        if 1e9 < 2 * m * n * k < 5e11:
            count += 1
            yield Gemm("odd gemm", "bf16", m, n, k, transposed=draw.random() < 0.5)


def drawn(seed):
    """Ragged lengths, unlike ones, grouped heads; products of any sides, of 1 to 500 GFLOP each."""
    draw = random.Random(seed)

    def between(low, high):
        return round(low * (high / low) ** draw.random())

    for head_dim in (64, 128):
        for _ in range(12):
            kv_heads, seq = draw.choice([1, 2, 4, 8, 16]), between(256, 16384)
            causal = draw.random() < 0.5
            kv_seq = seq if causal or draw.random() < 0.6 else between(256, 16384)  # peers disagree on unlike lengths under a mask
            heads, batch = kv_heads * draw.choice([1, 2, 4]), draw.choice([1, 2, 3, 4])
            yield Attention(f"drawn D={head_dim}", "bf16", head_dim, seq, heads, kv_heads, kv_seq, batch, causal)
    count = 0
    while count < 20:
        m, n, k = between(128, 16384), between(128, 16384) // 8 * 8, between(128, 16384) // 8 * 8
        if 1e9 < 2 * m * n * k < 5e11:
            count += 1
            yield Gemm("drawn gemm", "bf16", m, n, k, transposed=True)
    yield from drawn_skinny(seed)
    yield from drawn_products(seed)
    yield from drawn_odd(seed)
    yield from drawn_masked(seed)
    yield from drawn_pairwise(seed)
    yield from drawn_gradients(seed)


def problems(device, quick):
    if device == "cuda":
        yield from attention_on_a_gpu(quick)
        for head_dim, heads, kv_heads, kv_seq, batch in [(128, 32, 8, 8192, 8)] if quick else DECODE:
            yield Attention("decode", "bf16", head_dim, 1, heads, kv_heads, kv_seq, batch)
        for seq in (16,) if quick else (4, 16, 64):
            yield Attention("few queries", "bf16", 128, seq, 64, 8, 8192)
        for n in (4096, 8192) if quick else (1024, 2048, 4096, 8192, 16384):
            yield Gemm("gemm", "bf16", n, transposed=True)
        for m, n, k in [] if quick else [(4096, 14336, 4096), (8192, 28672, 8192), (8192, 8192, 28672), (512, 8192, 8192),
                                         (128, 8192, 8192), (8191, 8200, 4104), (4095, 4104, 8200), (1000, 3000, 2008)]:  # fmt: skip
            yield Gemm("gemm", "bf16", m, n, k, transposed=True)
        for dtype in ("fp32", *PRECISIONS):
            for n in (4096,) if quick else (1024, 2048, 4096, 8192):
                yield Gemm(f"{dtype} gemm", dtype, n, transposed=True)
            for m, n, k in [] if quick else [(4096, 14336, 4096), (512, 8192, 8192), (128, 8192, 8192), (4095, 4104, 8200),
                                             (1000, 3000, 2008), (1001, 3001, 2007)]:  # fmt: skip
                yield Gemm(f"{dtype} gemm", dtype, m, n, k, transposed=True)
            if not quick:
                yield Gemm(f"{dtype} gemm", dtype, 4096)
        if not quick:
            yield from masked()
            yield from pairwise()
            yield from gradients()
    else:
        for dtype in ("fp32", "bf16"):
            for head_dim in (64, 128):
                for seq in (512,) if quick else (512, 2048):
                    for causal in (False, True):
                        yield Attention("attention", dtype, head_dim, seq, 8, causal=causal)
        yield Attention("grouped heads", "bf16", 128, 512, 8, 2, causal=True)
        yield Attention("decode", "bf16", 128, 1, 8, 8, 4096 if quick else 32768)
        for dtype in ("fp32", "bf16"):
            for n in (512,) if quick else (512, 1024, 2048):
                yield Gemm("gemm", dtype, n)


class Table:
    """Rows as they come: a rate for each library, weft's ratio to the best peer."""

    def __init__(self, weft, options):
        self.weft, self.options, self.rows, self.absent, self.wrong = weft, options, [], {}, False
        on_a_gpu = interleave_graphs if options.graph else interleave_settled if options.settled else interleave_cuda
        self.interleave = interleave if options.device == "cpu" else on_a_gpu
        self.wanted = [name for name in options.libraries.split(",") if name]
        self.loops = {name: Loop(options.loops, name) for name in ("wgmma", "mma") if self.wants(name)} if options.loops else {}
        everyone = dict.fromkeys([*ATTENTION[options.device], *GEMM[options.device], *Masked.makers[options.device],
                                  *Pairwise.makers[options.device], *Gradients.makers[options.device]])  # fmt: skip
        self.columns = [name for name in everyone if self.wants(name)]
        self.columns += self.loops
        print(f"{'':52}" + "".join(f"{name:>10}" for name in self.columns) + f"{'ratio':>8}")

    def wants(self, name):
        return not self.wanted or name in self.wanted

    def calls(self, problem):
        """{library: call} of those that take the problem and give the right result."""
        expected, part = problem.reference()
        calls = {}
        for name, make in problem.makers[self.options.device].items():
            if not self.wants(name):
                continue
            try:
                call = make(self.weft, problem)
                difference = largest_difference(part(call()), expected)
            except (Absent, self.weft.Unsupported, self.weft.NotFound, RuntimeError, TypeError, AssertionError) as error:
                reason = (str(error) or type(error).__name__).splitlines()[0]
                self.absent.setdefault((problem.group, name, reason), problem.name)
                continue
            if difference <= MOST_DIFFERENCE[problem.dtype] or name == "plain":  # another result is right there
                calls[name] = call
            else:
                self.wrong = True
                print(f"{name} DIFFERS by {difference:.1e} on {problem.group} {problem.name}", flush=True)
        return calls

    def add(self, problem):
        problem.device, problem.options = self.options.device, self.options
        if problem.device == "cpu" and problem.unit == "TFLOP/s":
            problem.unit, problem.amount = "GFLOP/s", 1e3 * problem.amount
        problem.fill()
        with torch.no_grad():
            calls = self.calls(problem)
            if problem.unit == "TFLOP/s":
                calls.update(self.loops)
            timed = self.interleave(list(calls.values()), self.options.seconds)
        times = dict(zip(calls, timed))
        rates = {name: self.loops.get(name, problem).amount / statistics.median(mine) for name, mine in times.items()}
        peers = [rate for name, rate in rates.items() if name not in ("weft", "study", "portable", "known", "plain", "wgmma", "mma")]
        ratio = rates["weft"] / max(peers) if "weft" in rates and peers else None
        self.rows.append({"group": problem.group, "problem": problem.name, "unit": problem.unit, "rates": rates, "ratio": ratio,
                          "seconds": times})  # fmt: skip
        cells = "".join(f"{rates[name]:10.2f}" if name in rates else f"{'-':>10}" for name in self.columns)
        shown = f"{problem.group} {problem.name}"
        print(f"{shown:52}{cells}{'-' if ratio is None else format(ratio, '.2f'):>8} {problem.unit}", flush=True)
        problem.tensors = None

    def summary(self):
        """Geometric means of weft's ratio to each peer and to the best, by group."""
        means = []
        for group in dict.fromkeys(row["group"] for row in self.rows):
            rows = [row for row in self.rows if row["group"] == group and "weft" in row["rates"]]
            for peer in [*(name for name in self.columns if name != "weft"), "best"]:
                ratios = [row["ratio"] if peer == "best" else row["rates"]["weft"] / row["rates"][peer] for row in rows
                          if (row["ratio"] if peer == "best" else peer in row["rates"])]  # fmt: skip
                if ratios:
                    means.append({"group": group, "peer": peer, "mean": geometric_mean(ratios), "least": min(ratios), "rows": len(ratios)})
        print("\nweft over, geometric mean (least):")
        for m in means:
            print(f"  {m['group']:16}{m['peer']:10}{m['mean']:6.2f} ({m['least']:.2f}) in {m['rows']} rows")
            if m["peer"] == "plain":
                print(f"  {m['group']:16}costs {100 / m['mean'] - 100:.1f} %, at most {100 / m['least'] - 100:.1f} %")
        for (group, name, reason), first in self.absent.items():
            print(f"  left out: {name} of {group}, first at {first}: {reason}")
        return means


def device_name(device):
    """The GPU's name, or what Linux says of the processor."""
    if device == "cuda":
        return torch.cuda.get_device_name()
    names = []
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def environment(weft, options):
    return {"command": " ".join(sys.argv), "device": device_name(options.device), "threads": torch.get_num_threads(),
            "weft": weft.__version__, "torch": torch.__version__}  # fmt: skip


def write_csv(path, said, rows):
    with open(path, "w", newline="") as file:
        file.write(f"# {json.dumps(said)}\n")
        writer = csv.writer(file)
        writer.writerow(["group", "problem", "library", "median_seconds", "rate", "unit", "weft_over_it", "repetitions"])
        for row in rows:
            for name, rate in row["rates"].items():
                times = row["seconds"][name]
                over = row["rates"]["weft"] / rate if "weft" in row["rates"] else ""
                writer.writerow([row["group"], row["problem"], name, f"{statistics.median(times):.6g}", f"{rate:.6g}", row["unit"],
                                 over and f"{over:.4f}", len(times)])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", default="", help="groups, as the first words of the rows name them: D=64, grouped heads, gemm, ...")
    parser.add_argument("--libraries", default="", help="columns: weft, cudnn, ... (all)")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--draw", type=int, metavar="SEED", help="cuda: problems drawn at random besides")
    parser.add_argument("--graph", action="store_true", help="cuda: time calls captured in graphs, not one by one")
    parser.add_argument("--settled", action="store_true", help="cuda: turns of a quarter of a second, when clocks have settled")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each row")
    parser.add_argument("--library", help="a libweft.so, with the package of this tree; otherwise the installed package")
    parser.add_argument("--triton", metavar="FILE")
    parser.add_argument("--loops", metavar="CUBIN", help="cuda: loops.cubin, timed in every row")
    parser.add_argument("--csv")
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("peers.py: torch sees no GPU here")
    weft = import_weft(options.library)
    torch.manual_seed(1)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    said = environment(weft, options)
    print(", ".join(f"{key} {value}" for key, value in said.items()))
    table, only = Table(weft, options), [group for group in options.only.split(",") if group]
    listed = [*problems(options.device, options.quick), *(drawn(options.draw) if options.draw is not None else [])]
    for problem in listed:
        if not only or problem.group in only:
            table.add(problem)
    if not table.rows:
        sys.exit(f"peers.py: there is no group {options.only!r}")
    means = table.summary()
    if options.csv:
        write_csv(options.csv, said, table.rows)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({**said, "means": means, "rows": table.rows}, file, indent=1)
    sys.exit(1 if table.wrong else 0)


if __name__ == "__main__":
    main()
