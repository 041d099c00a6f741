# SPDX-License-Identifier: Apache-2.0
"""The torch operator with everything that an attention may have: results, gradients, torch.compile, torch's rules for operators."""

import numpy as np
import pytest
import weft
from hypothesis import given, settings
from oracle import assert_close
from strategies import features

torch = pytest.importorskip("torch", reason="torch is not importable here: its tests are skipped")
import torch_oracle  # noqa: E402
import weft.torch  # noqa: E402

DIFFERENTIABLE = ("q", "k", "v", "sinks", "bias")


def tensors(arguments, dtype):
    """Arrays as tensors, those that have a gradient as leaves of a dtype."""
    made = {name: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for name, x in arguments.items()}
    for name in DIFFERENTIABLE:
        if name in made and made[name].dtype != torch.bool:
            made[name] = made[name].to(dtype).requires_grad_()
    return made


@settings(max_examples=60)
@given(features(dtypes=("float32",), most=20))
def test_gradients(arguments):
    mine, theirs = tensors(arguments, torch.float32), tensors(arguments, torch.float64)
    leaves = [name for name in DIFFERENTIABLE if name in mine and mine[name].requires_grad]
    o, expected = weft.attention(**mine), torch_oracle.attention(**theirs)
    assert_close(o.detach(), expected.detach(), "float32")
    weight = torch.from_numpy(np.random.default_rng(0).standard_normal(expected.shape))
    found = torch.autograd.grad(o, [mine[name] for name in leaves], weight.float())
    right = torch.autograd.grad(expected, [theirs[name] for name in leaves], weight)
    for name, x, y in zip(leaves, found, right):
        assert_close(x, y.nan_to_num(), "float32")


Q, K, V = (torch.randn(2, 12, heads, 16, generator=torch.Generator().manual_seed(heads)) for heads in (4, 2, 2))
CASES = {
    "window": dict(window=(3, 1)), "chunk": dict(chunk=5, causal=True), "softcap": dict(softcap=2.0),
    "sinks": dict(sinks=torch.randn(4, dtype=torch.float64)), "alibi": dict(alibi=torch.rand(2, 4)),
    "bias": dict(bias=torch.randn(1, 4, 12, 12)), "bool bias": dict(bias=torch.rand(2, 1, 1, 12) < 0.8),
    "used": dict(kv_used=torch.tensor([7, 12]), q_used=[12, 4]), "pad": dict(kv_pad=torch.tensor([2, 0]), causal=True),
    "dropout": dict(dropout=0.3, seed=2**64 - 5), "value dim": dict(softcap=30.0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_compile_takes_it_whole(name):
    case = CASES[name]

    def model(q, k, v):
        return weft.torch.attention(q * 2, k, v, **case).relu() + 1

    torch._dynamo.reset()  # one function, compiled anew for each case
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    q, k, v = (x.clone().requires_grad_() for x in (Q, K, V if name != "value dim" else V[..., :5]))
    found, expected = compiled(q, k, v), model(q, k, v)
    torch.testing.assert_close(found, expected)
    for x, y in zip(torch.autograd.grad(found.sum(), (q, k, v)), torch.autograd.grad(expected.sum(), (q, k, v))):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_compile_differentiates_a_bias(layout):
    def model(bias):
        return weft.torch.attention(q, k, v, bias=bias, causal=True, layout=layout).square().sum()

    q, k, v = (x if layout == "bshd" else x.transpose(1, 2) for x in (Q, K, V))
    bias = torch.randn(4, 1, 12, requires_grad=True)
    torch._dynamo.reset()
    found, expected = torch.compile(model, fullgraph=True, backend="aot_eager")(bias), model(bias)
    torch.testing.assert_close(torch.autograd.grad(found, bias), torch.autograd.grad(expected, bias))


def test_the_operator_keeps_torch_s_rules():
    leaf = Q.clone().requires_grad_()
    nothing = dict.fromkeys(weft.features.ARRAYS)
    sides = [
        (leaf, K, V, {"sinks": torch.randn(4, requires_grad=True)}, None), (leaf, K, V[..., :5], {"bias": torch.randn(12, 12)}, (2, 2)),
        (Q[0], K[0], V[0], {"q_starts": torch.tensor([0, 5, 12], dtype=torch.int32)}, None),
        (leaf, K, V, {"tree": torch.arange(Q.shape[0] * Q.shape[1]).view(Q.shape[:2])}, None), (Q, K, V[..., :5], {"qv": Q[..., 3:8]}, None),
    ]  # fmt: skip
    for q, k, v, given, window in sides:
        arguments = (q, k, v, *{**nothing, **given}.values(), True, None, None, "bshd", window, None, 0, 0, 5.0, 0.25, 7, True, True, "", False)
        tests = ("test_schema", "test_faketensor", "test_autograd_registration")
        torch.library.opcheck(torch.ops.weft.attention.default, arguments, test_utils=tests)


def test_lengths_of_any_kind():
    expected = weft.attention(Q[0], K[0], V[0], lengths=[5, 7], causal=True)
    for starts in ([0, 5, 12], np.array([0, 5, 12]), torch.tensor([0, 5, 12]), torch.tensor([0, 5, 12], dtype=torch.int32)):
        torch.testing.assert_close(weft.torch.attention(Q[0], K[0], V[0], q_starts=starts, causal=True), expected, rtol=0, atol=0)


def test_gradients_of_a_bias_beside_a_tree():
    """A tree without branches is a causal mask; the bias repeats itself for batches and queries."""
    found = []
    for mask in (dict(causal=True), dict(tree=torch.ones(12, 12).tril().bool())):
        bias = torch.randn(4, 1, 12, generator=torch.Generator().manual_seed(3)).requires_grad_()
        weft.attention(Q, K, V, bias=bias, softcap=3.0, **mask).square().sum().backward()
        found.append(bias.grad)
    assert found[0].abs().max() > 0.1
    torch.testing.assert_close(*found)


def test_gradients_that_are_not_there():
    q = Q.clone().requires_grad_()
    with pytest.raises(weft.Unsupported, match="gradient of alibi"):
        weft.attention(q, K, V, alibi=torch.rand(4, requires_grad=True)).sum().backward()
    with pytest.raises(weft.Unsupported, match="gradient of max"):
        weft.attention(q, K, V, return_max=True)[1].sum().backward()
    for given in ((q, Q), (Q, q)):
        with pytest.raises(weft.Unsupported, match="an attention with qv has no gradient: use torch.no_grad"):
            weft.attention(given[0], K, V, qv=given[1])


def test_queries_for_the_values():
    """Rows that lie apart, and columns that the operator copies; compiled."""
    wide, expected = torch.randn(2, 12, 4, 40), None
    for qv in (wide[..., 3:19], wide[..., 3:19].transpose(1, 3).contiguous().transpose(1, 3)):
        theirs = torch_oracle.attention(torch.cat([Q, qv], 3).double(), torch.cat([K, V], 3).double(), V.double(), causal=True)
        found = weft.torch.attention(Q, K, V, qv=qv, causal=True)
        assert_close(found, theirs, "float32")
        expected = found if expected is None else expected
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
        compiled = torch.compile(lambda q, qv: weft.attention(q, K, V, qv=qv, causal=True), fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(Q, qv.contiguous()), expected, rtol=0, atol=0)


def test_a_cache_in_torch():
    """Directly, by the operator, and compiled."""
    torch.manual_seed(0)
    table, used, starts = (torch.tensor(x, dtype=torch.int32) for x in ([[3, 0], [1, 2]], [3, 1], [0, 2, 3]))
    q, new, pages = torch.randn(3, 4, 16), (torch.randn(3, 2, 16), torch.randn(3, 2, 16)), (torch.randn(4, 3, 2, 16), torch.randn(4, 3, 2, 16))
    options = dict(causal=True, block_table=table, kv_used=used, q_starts=starts, append=new, return_lse=True)
    as_numpy = {name: tuple(x.numpy() for x in value) if name == "append" else value.numpy() if torch.is_tensor(value) else value
                for name, value in options.items()}  # fmt: skip
    copies = [x.numpy().copy() for x in pages]
    expected = weft.attention(q.numpy(), *copies, **as_numpy)

    def run(q, k, v):
        return weft.attention(q, k, v, **options)

    for call in (run, lambda *x: weft.torch.attention(*x, **options), torch.compile(run, backend="aot_eager")):
        mine = [x.clone() for x in pages]
        for found, theirs in zip((*call(q, *mine), *mine), (*expected, *copies)):
            np.testing.assert_array_equal(found.numpy(), theirs)
    for x in (q, pages[0]):
        x.requires_grad_()
        with pytest.raises(weft.Unsupported, match="block_table, append has no gradient"):
            run(q, *pages)
        x.requires_grad_(False)


def test_the_operator_s_schema_says_what_is_written():
    weft.torch  # registers it
    schema = torch.ops.weft.attention_in_place.default._schema
    written = [argument.name for argument in schema.arguments if argument.alias_info is not None and argument.alias_info.is_write]
    assert written == ["k", "v", "out"]
    table, used, new = torch.tensor([[1], [0]], dtype=torch.int32), torch.tensor([3, 1], dtype=torch.int32), torch.randn(2, 1, 2, 16)
    q, k = torch.randn(2, 1, 4, 16), torch.randn(2, 5, 2, 16)
    nothing = [None] * len(weft.features.ARRAYS)
    nothing[list(weft.features.ARRAYS).index("kv_used")] = used
    arguments = (q, k, k.clone(), torch.empty_like(q), *nothing, table, new, new, None, None, None, None, True, None, None, "bshd", None, None,
                 0, 0, 0.0, 0.0, 0, 0, False, True, False, "")  # fmt: skip
    torch.library.opcheck(torch.ops.weft.attention_in_place.default, arguments)
