"""attn_implementation="weft" gives the logits of "sdpa", on small models with random weights."""

import warnings

import pytest

torch = pytest.importorskip("torch", reason="torch is not importable here: its tests are skipped")
transformers = pytest.importorskip("transformers", reason="transformers is not importable here: its tests are skipped")
import weft.torch  # noqa: E402

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
SIZES = dict(vocab_size=211, hidden_size=256, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128)  # fmt: skip


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


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["Llama", "Qwen2"])
def test_logits(kind, dtype, device, monkeypatch):
    if device == "cuda" and dtype == torch.float32:
        pytest.skip("there is no CUDA kernel for fp32 yet")
    ours, theirs = models(kind, dtype, device)
    calls, forward = [], weft.compute.attention_forward
    monkeypatch.setattr(weft.compute, "attention_forward", lambda *x: calls.append(x) or forward(*x))
    tokens = torch.randint(0, 211, (2, 33), device=device)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing falls back
        found, expected = ours(tokens).logits, theirs(tokens).logits
    assert len(calls) == SIZES["num_hidden_layers"] and calls[0][1].shape[1] == SIZES["num_key_value_heads"]
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    assert (found - expected).abs().max() <= tolerance * expected.abs().max()


@pytest.mark.parametrize("kind", ["Llama", "Qwen2"])
def test_generation_and_padding(kind):
    ours, theirs = models(kind, torch.float32, "cpu")
    tokens = torch.randint(1, 211, (2, 9))
    options = dict(max_new_tokens=6, do_sample=False, pad_token_id=0)
    mask = torch.ones_like(tokens)
    assert torch.equal(ours.generate(tokens, attention_mask=mask, **options), theirs.generate(tokens, attention_mask=mask, **options))
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
