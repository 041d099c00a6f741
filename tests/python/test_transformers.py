"""attn_implementation="weft" gives the logits of "sdpa", on small models with random weights."""

import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not importable here: its tests are skipped")
transformers = pytest.importorskip("transformers", reason="transformers is not importable here: its tests are skipped")
import weft.torch  # noqa: E402

WHERE = [("cpu", torch.float32), ("cpu", torch.bfloat16)]  # what weft computes there
WHERE += [("cuda", torch.float16), ("cuda", torch.bfloat16)] if torch.cuda.is_available() else []
TOLERANCE = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 2e-2}  # of the largest logit
SIZES = dict(vocab_size=211, hidden_size=256, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=64, max_position_embeddings=128)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def registered():
    weft.torch.register_with_transformers()


def models(kind, dtype, device):
    torch.manual_seed(0)

    def model(implementation):
        config = getattr(transformers, f"{kind}Config")(**SIZES)
        made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=implementation)
        assert made.config._attn_implementation == implementation
        return made.to(device, dtype).eval()

    ours, theirs = model("weft"), model("sdpa")
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def assert_logits(found, expected):
    assert (found.float() - expected.float()).abs().max() <= TOLERANCE[expected.dtype] * expected.abs().max()


@pytest.fixture
def calls(monkeypatch):
    """The arguments of every attention that weft computes; warnings, which say that something falls back, are errors."""
    seen, forward = [], weft.compute.attention_forward
    monkeypatch.setattr(weft.compute, "attention_forward", lambda *x: seen.append(x) or forward(*x))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield seen


@pytest.mark.parametrize("device, dtype", WHERE)
@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Qwen3"])
def test_logits(kind, device, dtype, calls):
    ours, theirs = models(kind, dtype, device)
    tokens = torch.randint(0, 211, (2, 97), device=device)
    with torch.no_grad():
        found, expected = ours(tokens).logits, theirs(tokens).logits
    assert len(calls) == SIZES["num_hidden_layers"] and calls[0][1].shape[1] == SIZES["num_key_value_heads"]
    assert_logits(found, expected)


@pytest.mark.parametrize("device, dtype", WHERE)
@pytest.mark.parametrize("kind", ["Llama", "Qwen2"])
def test_generation(kind, device, dtype, calls):
    """Tokens one by one, with a cache of keys, against the whole sequence at once."""
    ours, theirs = models(kind, dtype, device)
    tokens = torch.randint(1, 211, (2, 9), device=device)
    options = dict(max_new_tokens=12, min_new_tokens=12, do_sample=False, pad_token_id=0, attention_mask=torch.ones_like(tokens))
    made = ours.generate(tokens, output_logits=True, return_dict_in_generate=True, **options)
    assert made.sequences.shape == (2, 21) and len(calls) == 12 * SIZES["num_hidden_layers"]
    assert calls[-1][0].shape[2] == 1 and calls[-1][1].shape[2] == 20
    if dtype == torch.float32:
        assert torch.equal(made.sequences, theirs.generate(tokens, **options))
    with torch.no_grad():
        expected = theirs(made.sequences).logits[:, 8:-1]
    assert_logits(torch.stack(made.logits, 1), expected)


def test_padding():
    ours, theirs = models("Llama", torch.float32, "cpu")
    tokens = torch.randint(1, 211, (2, 9))
    mask = torch.ones_like(tokens)
    mask[0, :3] = 0
    weft.torch._announced.clear()
    with pytest.warns(RuntimeWarning, match="mask that is not plainly causal"), torch.no_grad():
        found = ours(tokens, attention_mask=mask).logits
    with torch.no_grad():
        torch.testing.assert_close(found, theirs(tokens, attention_mask=mask).logits)


def test_gradients():
    ours, theirs = models("Llama", torch.float32, "cpu")
    tokens = torch.randint(0, 211, (1, 17))
    for model in (ours, theirs):
        model(tokens, labels=tokens).loss.backward()
    for mine, other in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-5)
