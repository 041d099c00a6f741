# SPDX-License-Identifier: Apache-2.0
"""weft on torch tensors and weft.torch, against torch's own attention, on the CPU."""

import copy
import warnings

import pytest
import weft
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import assert_close
from strategies import attentions

torch = pytest.importorskip("torch", reason="torch is not importable here: its tests are skipped")
import weft.torch  # noqa: E402
from weft import by_torch  # noqa: E402

NONE = [None] * len(weft.features.ARRAYS)  # what is beside q, k and v
PLAIN = (None, None, 0, 0, 0.0, 0.0, 0)  # its window, block_mask, chunk, prefix, softcap, dropout and seed
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def tensors(arguments, dtype, grad=False):
    """The arrays as tensors of a dtype; those that stay fp32 keep their strides."""
    out = dict(arguments)
    for name in "qkv":
        out[name] = torch.from_numpy(arguments[name]).to(dtype).detach().requires_grad_(grad)
    return out


def name_of(dtype):
    return str(dtype).partition(".")[2]


@settings(max_examples=60)
@given(attentions(dtypes=("float32",)), st.sampled_from(DTYPES))
def test_forward(arguments, dtype):
    given = tensors(arguments, dtype)
    o, lse = weft.attention(**given, return_lse=True)
    options = [arguments[x] for x in ("causal", "scale", "offset", "layout")]
    expected = by_torch.attention(*(given[x].double() for x in "qkv"), *options)
    assert isinstance(o, torch.Tensor) and o.dtype == dtype and o.shape == given["q"].shape
    assert_close(o.float(), expected, name_of(dtype))
    assert_close(lse, by_torch.lse(given["q"], given["k"], *options), name_of(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_views_as_models_make_them(dtype):
    packed = torch.randn(2, 37, 3, 4, 32).to(dtype)  # (batch, seq, qkv, heads, head_dim)
    q, k, v = (x.transpose(1, 2) for x in packed.unbind(2))
    o = weft.attention(q, k, v, layout="bhsd", causal=True)
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
    assert_close(o.float(), expected, name_of(dtype))
    c = weft.matmul(q[0, 0], k[0, 0].T)
    assert_close(c.float(), q[0, 0].double() @ k[0, 0].double().T, name_of(dtype))


@settings(max_examples=40)
@given(attentions(dtypes=("float32",)))
def test_gradients(arguments):
    mine, theirs = tensors(arguments, torch.float32, grad=True), tensors(arguments, torch.float64, grad=True)
    o = weft.torch.attention(**mine)
    options = [arguments[x] for x in ("causal", "scale", "offset", "layout")]
    expected = by_torch.attention(*(theirs[x] for x in "qkv"), *options)
    weight = torch.randn_like(expected)
    grads = torch.autograd.grad(o, [mine[x] for x in "qkv"], weight.float())
    for found, right in zip(grads, torch.autograd.grad(expected, [theirs[x] for x in "qkv"], weight)):
        assert_close(found, right.nan_to_num(), "float32")


def test_gradients_of_expanded_and_transposed_tensors():
    base = [torch.randn(2, 9, 1, 16, requires_grad=True) for _ in range(3)]

    def loss(attention, cast):
        q, k, v = (x.to(cast).expand(2, 9, 4, 16) for x in base)
        return attention(q, k, v)

    found = torch.autograd.grad(loss(lambda *x: weft.attention(*x, causal=True).sum(), torch.float32), base)
    right = torch.autograd.grad(loss(lambda *x: by_torch.attention(*x, True, None, None, "bshd").sum(), torch.float64), base)
    for mine, theirs in zip(found, right):
        assert_close(mine, theirs, "float32")


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (3, 1)}, {"softcap": 2.0}])
def test_gradients_as_differences_say(options):
    torch.manual_seed(1)
    q, k, v = (torch.randn(1, 7, heads, 4, requires_grad=True) for heads in (4, 2, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that differences of float32 are coarse: so are steps and bounds
        assert torch.autograd.gradcheck(lambda *x: weft.attention(*x, **options), (q, k, v), eps=1e-2, atol=2e-3, rtol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_second_derivatives_are_refused(dtype):
    q, k, v = (torch.randn(1, 7, 2, 4, dtype=dtype, requires_grad=True) for _ in range(3))
    o = weft.torch.attention(q, k, v)
    with pytest.raises(weft.Unsupported, match="no second derivatives"):
        (grad,) = torch.autograd.grad(o.square().sum(), q, create_graph=True)
        grad.sum().backward()


def test_lse_has_no_gradient_yet():
    q = torch.randn(1, 4, 2, 16, requires_grad=True)
    _, lse = weft.attention(q, q, q, return_lse=True)
    with pytest.raises(weft.Unsupported, match="gradient of lse"):
        lse.sum().backward()


def test_the_operator_keeps_torch_s_rules():
    for layout, grad in (("bshd", True), ("bhsd", False)):
        q = torch.randn(2, 6, 4, 16, requires_grad=grad)
        k = torch.randn(2, 6, 4, 16, requires_grad=grad)
        torch.library.opcheck(torch.ops.weft.attention.default, (q, k, k, *NONE, True, None, None, layout, *PLAIN, True, False, "", True),
                              test_utils=("test_schema", "test_faketensor", "test_autograd_registration"))  # fmt: skip
    gaps = torch.randn(2, 6, 4, 32)[..., ::2], torch.randn(2, 12, 4, 16)[:, ::2], torch.randn(2, 1, 4, 16).expand(2, 6, 4, 16)
    for q in gaps:
        torch.library.opcheck(torch.ops.weft.attention.default, (q, k.detach(), k.detach(), *NONE, True, None, None, "bshd", *PLAIN, False, False, "", True),
                              test_utils=("test_schema", "test_faketensor"))  # fmt: skip


@pytest.mark.parametrize("function", [weft.attention, weft.torch.attention])
def test_compile_takes_it_whole(function):
    def model(q, k, v):
        return function(q * 2, k, v, causal=True, schedule={"sweep": "sawtooth"}).relu() + 1

    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    q, k, v = (torch.randn(1, 21, 4, 16, requires_grad=True) for _ in range(3))
    with torch.no_grad():
        torch.testing.assert_close(compiled(q, k, v), model(q, k, v))
    o, expected = compiled(q, k, v), model(q, k, v)
    torch.testing.assert_close(o, expected)
    for x, y in zip(torch.autograd.grad(o.sum(), (q, k, v)), torch.autograd.grad(expected.sum(), (q, k, v))):
        torch.testing.assert_close(x, y)


def test_fallback_is_announced_once():
    weft.torch._announced.clear()
    q = torch.randn(1, 5, 2, 600)
    with pytest.warns(RuntimeWarning, match="head_dim 600 is above 576"):
        o, lse = weft.torch.attention(q, q, q, causal=True, return_lse=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = weft.torch.attention(q, q, q, causal=True)
    torch.testing.assert_close(o, again)
    x = q.transpose(1, 2)
    torch.testing.assert_close(o.transpose(1, 2), torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True))
    assert lse.shape == (1, 2, 5)
    with pytest.raises(weft.Invalid, match="head dims of 600"):
        weft.torch.attention(q, q, q, fallback=False)
    with pytest.raises(weft.Invalid, match="head dims of 600"):  # torch takes over only what is plain
        weft.torch.attention(q, q, q, softcap=3.0)
    double = torch.randn(1, 5, 2, 16, dtype=torch.float64, requires_grad=True)
    with pytest.warns(RuntimeWarning, match="float64"):
        weft.torch.attention(double, double, double).sum().backward()
    assert double.grad is not None
    found = double.grad.clone()
    double.grad = None
    compiled = torch.compile(lambda x: weft.torch.attention(x, x, x).sum(), fullgraph=True, backend="aot_eager")
    compiled(double).backward()
    torch.testing.assert_close(double.grad, found)


def test_refused():
    q = torch.randn(1, 4, 2, 16)
    with pytest.raises(TypeError, match="q is an array of torch and k one of NumPy"):
        weft.attention(q, q.numpy(), q)
    with pytest.raises(weft.Unsupported, match="q is on meta"):
        weft.attention(*[q.to("meta")] * 3)
    with pytest.raises(weft.Invalid, match="q has dtype torch.float64"):
        weft.attention(*[q.double()] * 3)
    with pytest.raises(weft.Invalid, match="layout torch.sparse_coo"):
        weft.attention(q.to_sparse(), q, q)
    for function in (weft.attention, weft.torch.attention):
        with pytest.raises(weft.Invalid, match="q has 3 dimensions"):
            function(q[0], q, q)
    a = torch.ones(2, 2, requires_grad=True)
    with pytest.raises(weft.Unsupported, match="scales of a product have no gradient"):
        weft.matmul(a, a, row_scale=torch.ones(2, requires_grad=True))
    with torch.no_grad():
        weft.matmul(a, a, row_scale=torch.ones(2, requires_grad=True))


ACTIVATIONS = {
    None: lambda z: z, "relu": torch.relu, "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu,
    "gelu_tanh": lambda z: torch.nn.functional.gelu(z, approximate="tanh"),
}  # fmt: skip


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("name", list(ACTIVATIONS))
def test_products_have_gradients(name, gated):
    generator = torch.Generator().manual_seed(1)
    x, weight, bias = (torch.randn(*shape, generator=generator) for shape in ((2, 5, 8), (12, 8), (12,)))
    residual = torch.randn(2, 5, 6 if gated else 12, generator=generator)
    mine, theirs = ([t.clone().to(kind).requires_grad_() for t in (x, weight, bias, residual)] for kind in (torch.float32, torch.float64))
    how = {"gate": name or "identity"} if gated else {"activation": name}
    y = weft.linear(*mine[:3], **how, residual=mine[3], scale=0.5)
    z = 0.5 * theirs[0] @ theirs[1].T + theirs[2]
    expected = (ACTIVATIONS[name](z[..., :6]) * z[..., 6:] if gated else ACTIVATIONS[name](z)) + theirs[3]
    assert_close(y.detach(), expected.detach(), "float32")
    plain = weft.linear(*(t.detach() for t in mine[:3]), **how, residual=mine[3].detach(), scale=0.5)  # in one kernel
    assert_close(plain, expected.detach(), "float32")
    grad = torch.randn(y.shape, generator=generator)
    y.backward(grad)
    expected.backward(grad.double())
    for found, wanted in zip(mine, theirs):
        assert_close(found.grad, wanted.grad, "float32")


@pytest.mark.parametrize("how", [{}, {"activation": "gelu"}, {"gate": "silu"}])
def test_products_have_second_derivatives(how):
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(*shape, requires_grad=True) for shape in ((5, 4), (6, 4), (6,)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that differences of float32 are coarse: so are steps and bounds
        assert torch.autograd.gradgradcheck(lambda *t: weft.linear(*t, **how), (x, weight, bias), eps=1e-2, atol=2e-2, rtol=2e-2)


def test_products_are_operators():
    a, b, bias = torch.randn(6, 8), torch.randn(8, 10), torch.randn(10)
    arguments = (a, b, bias, None, None, torch.rand(6), None, "silu", True, 1.0, False, True, "fp32", "")
    torch.library.opcheck(torch.ops.weft.matmul.default, arguments, test_utils=("test_schema", "test_faketensor"))
    arguments = (a.requires_grad_(), b.requires_grad_(), bias.requires_grad_(), *(None,) * 4, "identity", False, 1.0, False, False, "tf32", "")
    torch.library.opcheck(torch.ops.weft.matmul.default, arguments, test_utils=("test_autograd_registration", "test_faketensor"))
    compiled = torch.compile(lambda a, b: weft.matmul(a, b, activation="relu"), backend="eager", fullgraph=True)
    assert_close(compiled(a, b).detach(), torch.relu(a @ b).detach(), "float32")


def test_gradients_are_as_precise_as_products(monkeypatch):
    asked, forward = [], weft.compute.matmul_forward

    def listen(a, b, schedule, arrays, options):
        asked.append(options.precision)
        return forward(a, b, schedule, arrays, options)

    monkeypatch.setattr(weft.compute, "matmul_forward", listen)
    a, b = torch.randn(6, 8, requires_grad=True), torch.randn(8, 10, requires_grad=True)
    c = weft.matmul(a, b, precision="tf32")
    c.sum().backward()
    assert asked == ["tf32"] * 3
    assert_close(c.detach(), (a @ b).detach(), "float32")
    assert_close(a.grad, b.detach().sum(1).expand(6, 8), "float32")


def test_a_layer_trains():
    torch.manual_seed(0)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = torch.nn.Linear(32, 96)

        def forward(self, x, attention):
            q, k, v = self.qkv(x).view(2, 10, 3, 2, 16).unbind(2)
            return attention(q, k, v)

    mine = Layer()
    theirs, x = copy.deepcopy(mine), torch.randn(2, 10, 32)
    for layer, attention in ((mine, lambda *t: weft.attention(*t, causal=True)),
                             (theirs, lambda *t: by_torch.attention(*t, True, None, None, "bshd"))):  # fmt: skip
        optimizer = torch.optim.SGD(layer.parameters(), 0.005)
        for _ in range(5):
            optimizer.zero_grad()
            layer(x, attention).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(mine.qkv.weight, theirs.qkv.weight, rtol=1e-4, atol=1e-5)
