#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an epilogue costs beside the plain product, on a GPU.

    epilogues.py --library libweft.so [--csv FILE] [--only "KIND;..."]

bf16, x (m, k) and weight (n, k), random normal numbers. Calls are captured in graphs, which are replayed in turns, and medians count. Each
epilogue is checked first, against fp32. torch's own: the product by cuBLAS, then one kernel after the other for the rest.
A gated product is compared with the plain one of all of B's columns; a residual and sums of columns read or write more than it does."""
import argparse, csv, json, sys

import timing

SHAPES = [(1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (8192, 8192, 8192), (4096, 14336, 4096), (8192, 28672, 8192),
          (512, 8192, 8192), (128, 8192, 8192)]  # fmt: skip
KINDS = ("bias", "relu", "gelu", "gelu_tanh", "silu", "gated silu", "residual", "scales", "column sums", "bias, gelu, residual")


def options_of(torch, kind, m, n):
    """The arguments of weft.matmul() for a kind of epilogue."""
    columns = n // 2 if "gated" in kind else n
    made = {}
    for word in kind.split(", "):
        if word == "bias":
            made["bias"] = torch.randn(n, device="cuda").bfloat16()
        elif word == "residual":
            made["residual"] = torch.randn(m, columns, device="cuda").bfloat16()
        elif word == "scales":
            made.update(row_scale=torch.rand(m, device="cuda"), column_scale=torch.rand(n, device="cuda"), scale=torch.rand(1, device="cuda"))
        elif word == "column sums":
            made["column_sums"] = True
        elif word.startswith("gated "):
            made["gate"] = word[len("gated ") :]
        else:
            made["activation"] = word
    return made


def by_torch(torch, z, options):
    """The epilogue of z = x W^T, by torch."""
    functional = torch.nn.functional
    gelu_tanh = lambda z: functional.gelu(z, approximate="tanh")  # noqa: E731
    activations = {"relu": functional.relu, "gelu": functional.gelu, "gelu_tanh": gelu_tanh, "silu": functional.silu}
    for name in ("scale", "column_scale"):
        z = z * options[name] if name in options else z
    z = z * options["row_scale"][:, None] if "row_scale" in options else z
    z = z + options["bias"] if "bias" in options else z
    half = z.shape[1] // 2
    if "gate" in options:
        z = activations[options["gate"]](z[:, :half]) * z[:, half:]
    elif "activation" in options:
        z = activations[options["activation"]](z)
    return z + options["residual"] if "residual" in options else z


def row(weft, torch, shape, kind, seconds):
    m, n, k = shape
    x, weight = torch.randn(m, k, device="cuda").bfloat16(), torch.randn(n, k, device="cuda").bfloat16()
    options = options_of(torch, kind, m, n)
    found = weft.matmul(x, weight.T, **options)
    rows = slice(0, 256)
    part = {name: value[rows] if name in ("residual", "row_scale") else value for name, value in options.items()}
    want = by_torch(torch, x[rows].float() @ weight.T.float(), part)
    c = (found[0] if options.get("column_sums") else found)[rows].float()
    assert timing.largest_difference(c, want) <= 0.01, f"{kind} is wrong"
    calls = [lambda: weft.matmul(x, weight.T), lambda: weft.matmul(x, weight.T, **options), lambda: by_torch(torch, x @ weight.T, options)]
    return timing.medians(timing.interleave_graphs(calls, seconds))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", help="libweft.so; without it, the installed package's")
    parser.add_argument("--only", default=None, help="kinds of epilogues, separated by semicolons")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each row")
    parser.add_argument("--csv")
    args = parser.parse_args()
    weft = timing.import_weft(args.library)
    import torch

    rows = []
    for shape in SHAPES:
        for kind in args.only.split(";") if args.only else KINDS:
            plain, fused, theirs = row(weft, torch, shape, kind, args.seconds)
            rows.append(("x".join(map(str, shape)), kind, plain, fused, theirs, fused / plain))
            print(f"{rows[-1][0]:18} {kind:22} plain {1e6 * plain:9.1f} us, fused {1e6 * fused:9.1f} ({100 * (fused / plain - 1):+5.1f} %), "
                  f"torch {1e6 * theirs:9.1f}", flush=True)  # fmt: skip
    if args.csv:
        with open(args.csv, "w", newline="", encoding="utf-8") as file:
            file.write("# " + json.dumps({"command": " ".join(["bench/epilogues.py", *sys.argv[1:]]), "device": torch.cuda.get_device_name()}) + "\n")
            csv.writer(file).writerows([("product", "epilogue", "plain_seconds", "fused_seconds", "torch_seconds", "fused_over_plain"), *rows])


if __name__ == "__main__":
    main()
