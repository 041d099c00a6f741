# SPDX-License-Identifier: Apache-2.0
"""transformers' caches through weft: a StaticCache, whose keys are more than there are tokens, and the paged cache of continuous batching.
Tokens are those of eager attention."""

import pytest

torch = pytest.importorskip("torch", reason="torch is not importable here: its tests are skipped")
transformers = pytest.importorskip("transformers", reason="transformers is not importable here: its tests are skipped")
import weft.torch  # noqa: E402

SIZES = dict(vocab_size=211, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             head_dim=16, max_position_embeddings=128)  # fmt: skip
KINDS = {"Llama": {}, "Qwen2": {}, "Mistral": dict(sliding_window=6), "Gemma2": dict(sliding_window=6, attn_logit_softcapping=0.5)}


def model_of(kind):
    weft.torch.register_with_transformers()
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES, **KINDS[kind])
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    for parameter in model.parameters():  # so that attention decides which token is next
        parameter.data.mul_(3)
    return model


@pytest.fixture
def calls(monkeypatch):
    """What every attention that weft computes asks for."""
    seen, forward = [], weft.compute.attention_forward
    monkeypatch.setattr(weft.compute, "attention_forward", lambda *x: seen.append(x[-1]) or forward(*x))
    return seen


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("padded", [False, True])
def test_static_cache(kind, padded, calls):
    model, tokens = model_of(kind), torch.randint(1, 211, (2, 9))
    mask = torch.ones_like(tokens)
    if padded:
        tokens[0, :4], mask[0, :4] = 0, 0
    made = []
    for implementation in ("eager", "weft"):
        model.set_attn_implementation(implementation)
        made.append(model.generate(tokens, attention_mask=mask, max_new_tokens=10, min_new_tokens=10, do_sample=False, pad_token_id=0,
                                   cache_implementation="static", disable_compile=True))  # fmt: skip
    assert len(calls) == 10 * SIZES["num_hidden_layers"] and torch.equal(*made)


def test_a_static_cache_is_not_masked_densely(calls):
    """A step says how many keys there are, and nothing waits for the number."""
    model, tokens = model_of("Llama"), torch.randint(1, 211, (2, 9))
    model.set_attn_implementation("weft")
    cache = transformers.StaticCache(config=model.config, max_cache_len=32)
    with torch.no_grad():
        model(tokens, past_key_values=cache)
        calls.clear()
        model(tokens[:, :1], past_key_values=cache)
    assert calls and all("bias" not in asked.arrays and asked.arrays["kv_used"].tolist() == [10, 10] for asked in calls)


@pytest.mark.parametrize("kind", ["Llama", "Mistral"])
def test_continuous_batching(kind, calls, monkeypatch):
    """Requests of unlike lengths that share a paged cache."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    model = model_of(kind)
    if not hasattr(model, "generate_batch") or "paged|eager" not in ALL_ATTENTION_FUNCTIONS.valid_keys():
        pytest.skip("this transformers has no continuous batching")
    prompts = [torch.randint(1, 211, (n,)).tolist() for n in (7, 3, 12)]
    options = transformers.GenerationConfig(max_new_tokens=6, do_sample=False, eos_token_id=-1, pad_token_id=0)

    def generate():
        model.set_attn_implementation("paged|eager")
        made = model.generate_batch(inputs=prompts, generation_config=options)
        return [made[name].generated_tokens for name in sorted(made)]

    expected, theirs = generate(), ALL_ATTENTION_FUNCTIONS["paged|eager"]
    assert all(len(tokens) == 6 for tokens in expected) and not calls
    masks = {**AttentionMaskInterface._global_mapping}
    try:
        weft.torch.register_with_transformers("paged|eager")
        assert generate() == expected
    finally:
        AttentionInterface.register("paged|eager", theirs)
        monkeypatch.setattr(AttentionMaskInterface, "_global_mapping", masks)
    assert calls and all("q_starts" in asked.arrays and "kv_starts" in asked.arrays for asked in calls)


def test_other_caches_are_refused():
    from weft.transformers import _from_paged_cache

    for options, name in ((dict(cache=3), "cache"), (dict(cache=transformers.DynamicCache(), block_table=torch.zeros(1, 1)), "block_table")):
        with pytest.raises(weft.Unsupported, match=rf"with {name} \("):
            _from_paged_cache(None, None, None, options)
