# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest that runs FlashAttention's own tests on weft.flash_attn: see flash_attention.sh.

The tests import the package flash_attn or the module flash_attn_interface, helpers included. Here these are weft.flash_attn, with
helpers of these few lines. On the CPU every "cuda" is taken for "cpu".
"""

import collections
import os
import random
import sys
import types

import pytest
import torch
import weft.flash_attn
import weft.flash_attn_3

DEVICE = os.environ.get("WEFT_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
STRIDE, LENGTH = int(os.environ.get("WEFT_STRIDE") or 1), int(os.environ.get("WEFT_LENGTH") or 1 << 62)
REFUSED = collections.Counter()  # gradients that weft does not have, by its messages
REFUSING = []  # what the test that runs was refused


def unpad_input(states, mask, unused=None):
    """The rows of (batch, seqlen, ...) where the mask is True, their places, where sequences begin, the longest, and all lengths."""
    every = mask if unused is None else mask | unused
    lengths, places = every.sum(1, dtype=torch.int32), every.flatten().nonzero().flatten()
    starts = torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    return states.flatten(0, 1)[places], places, starts, int(lengths.max()), mask.sum(1, dtype=torch.int32)


def pad_input(states, places, batch, seqlen):
    made = states.new_zeros((batch * seqlen, *states.shape[1:]))
    return made.index_put((places,), states).view(batch, seqlen, *states.shape[1:])


def apply_rotary_emb(x, cos, sin, interleaved=False, seqlen_offsets=0):
    """x (batch, seqlen, heads, head_dim) with its first elements rotated by their positions, which begin at the offsets."""
    at = torch.arange(x.shape[1], device=x.device) + torch.as_tensor(seqlen_offsets, device=x.device).reshape(-1, 1)
    cos, sin = (table[at].float()[:, :, None] for table in (cos, sin))
    turned, rest = x[..., : 2 * cos.shape[-1]].float(), x[..., 2 * cos.shape[-1] :]
    a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    a, b = a * cos - b * sin, b * cos + a * sin
    turned = torch.stack([a, b], -1).flatten(-2) if interleaved else torch.cat([a, b], -1)
    return torch.cat([turned.to(x.dtype), rest], -1)


def module(name, **members):
    made = types.ModuleType(name)
    vars(made).update(members)
    sys.modules[name] = made
    return made


def as_flash_attn():
    """Puts weft.flash_attn and the helpers in the place of the package."""
    package = module("flash_attn", **{name: getattr(weft.flash_attn, name) for name in weft.flash_attn.__all__})
    package.__path__ = []
    module("flash_attn.bert_padding", unpad_input=unpad_input, pad_input=pad_input)
    whole = 1 << 30  # weft.flash_attn's probabilities are relative to the largest score of a row, as if of one block
    module("flash_attn.flash_attn_interface", _get_block_size_n=lambda *arguments: whole, USE_TRITON_ROCM=False)
    module("flash_attn.layers").__path__ = []
    module("flash_attn.layers.rotary", apply_rotary_emb=apply_rotary_emb)
    # FlashAttention-3's module.
    functions = {name: getattr(weft.flash_attn_3, name) for name in weft.flash_attn_3.__all__}
    module("flash_attn_interface", flash_attn_combine=None, **functions)


def without_gradients(grad):
    """torch.autograd.grad; but once weft does not have a gradient, all of the same test are 0, so that it looks at results alone."""

    def wrapped(outputs, inputs, *arguments, **options):
        if not REFUSING:
            try:
                return grad(outputs, inputs, *arguments, **options)
            except weft.Unsupported as error:
                REFUSED[str(error)] += 1
                REFUSING.append(error)
        return tuple(map(torch.zeros_like, (inputs,) if torch.is_tensor(inputs) else inputs))

    return wrapped


def pytest_runtest_setup(item):
    REFUSING.clear()


class NoGradient(torch.autograd.Function):
    """What was computed, without a gradient."""

    @staticmethod
    def forward(ctx, out, *inputs):
        return out

    @staticmethod
    def backward(ctx, grad):
        raise weft.Unsupported("WEFT_FORWARD asks for results alone")


def forward_only(run):
    """weft.flash_attn's function that computes, without gradients on any device."""

    def wrapped(q, k, v, *arguments):
        inputs = [x for x in (q, k, v) if x.requires_grad]
        with torch.no_grad():
            out, lse = run(q, k, v, *arguments)
        return (NoGradient.apply(out, *inputs) if inputs else out), lse

    return wrapped


def on_cpu():
    """Takes every "cuda" for "cpu", and says of the GPU what the tests ask."""
    for name in ("randn", "rand", "randint", "randperm", "ones", "zeros", "empty", "arange", "full", "tensor"):
        make = getattr(torch, name)
        setattr(torch, name, lambda *a, _make=make, **o: _make(*a, **{**o, **({"device": "cpu"} if "device" in o else {})}))
    torch.cuda.get_device_capability = lambda *a: (9, 0)
    torch.cuda.get_device_properties = lambda *a: types.SimpleNamespace(total_memory=1 << 40)
    torch.cuda.synchronize = lambda *a: None


as_flash_attn()
if DEVICE == "cpu":
    on_cpu()
if os.environ.get("WEFT_FORWARD"):
    weft.flash_attn._run = forward_only(weft.flash_attn._run)
torch.autograd.grad = without_gradients(torch.autograd.grad)


# Tests of functions that weft does not have, of operators by their registered names, and of lengths beyond a table, which upstream refuses
# and weft takes for the table's.
NOT_ASKED = ("combine", "cluster", "bw_compatibility", "generator_arg", "paged_kv_num_splits", "block_table_bounds")


def is_asked(item):
    """Whether weft has what a case needs, and the case is short enough."""
    values = item.callspec.params if hasattr(item, "callspec") else {}
    if values.get("has_qv") or values.get("dtype") == torch.float8_e4m3fn or any(name in item.name for name in NOT_ASKED):
        return False
    return max((values.get(name, 0) for name in ("seqlen", "seqlen_q", "seqlen_k"))) <= LENGTH


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    can = [item for item in items if is_asked(item)]
    # A part of each test, whatever its parameters' order: every STRIDE-th of a shuffle that is always the same.
    chosen = sorted(random.Random(0).sample(range(len(can)), -(-len(can) // STRIDE)))
    print(f"\n{len(items)} cases: {len(items) - len(can)} need FP8, qv or other functions, or are too long, {len(chosen)} of the others run on {DEVICE}")
    items[:] = [can[i] for i in chosen]


def pytest_terminal_summary(terminalreporter):
    for message, count in REFUSED.most_common():
        terminalreporter.write_line(f"{count} gradients were not computed: {message}")
