# SPDX-License-Identifier: Apache-2.0
"""attn_implementation="weft" gives the logits of "sdpa", on small models with random weights; of "eager", or an error that says why not,
on a model of each family that wants more of an attention than q, k, v and a mask; and of padded and packed batches."""

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


@pytest.mark.parametrize("kind", ["Llama", "Mistral"])
def test_generation_of_padded_prompts_on_cpu(kind, calls):
    """Prompts of unlike lengths, padded on the left, as each by itself."""
    ours, theirs = models(kind, torch.float32, "cpu")
    tokens = torch.randint(1, 211, (2, 20))
    mask = torch.ones_like(tokens)
    tokens[0, :7], mask[0, :7] = 0, 0
    options = dict(max_new_tokens=9, min_new_tokens=9, do_sample=False, pad_token_id=0)
    made = ours.generate(tokens, attention_mask=mask, **options)
    assert calls and torch.equal(made, theirs.generate(tokens, attention_mask=mask, **options))
    assert torch.equal(made[0, 7:], ours.generate(tokens[:1, 7:], attention_mask=mask[:1, 7:], **options)[0])


def test_gradients():
    ours, theirs = models("Llama", torch.float32, "cpu")
    tokens = torch.randint(0, 211, (1, 17))
    for model in (ours, theirs):
        model(tokens, labels=tokens).loss.backward()
    for mine, other in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-3, atol=1e-5)


# What is set in a family's configuration, where it has such a field.
TINY = dict(
    SIZES, n_embd=64, n_layer=2, n_head=4, d_model=64, d_kv=16, d_ff=64, num_layers=2, num_heads=4, hidden_size=64, head_dim=16, ffn_dim=64,
    global_head_dim=16, num_experts=4, num_local_experts=4, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
    n_shared_experts=1, n_group=1, topk_group=1, first_k_dense_replace=1, q_lora_rank=32, kv_lora_rank=32, qk_rope_head_dim=16,
    qk_nope_head_dim=16, v_head_dim=16, o_lora_rank=16, o_groups=2, index_n_heads=2, index_head_dim=32, index_topk=8, sliding_window=8,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, query_pre_attn_scalar=16, attention_dropout=0.0, attention_chunk_size=8,
    local_attention=8, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
    decoder_ffn_dim=64, max_source_positions=40, max_target_positions=64, num_mel_bins=16, decoder_start_token_id=1,
)  # fmt: skip
LATENT = dict(num_key_value_heads=4)  # latent attention has no groups of heads
EQUAL = {  # family: what its configuration needs
    "Mistral": {}, "Gemma3Text": {}, "Cohere2": {}, "Olmo3": {}, "Exaone4": {}, "Llama4Text": {}, "Doge": {}, "Afmoe": {},
    "ModernBertDecoder": {}, "Mixtral": {}, "GraniteMoeShared": {}, "StableLm": {}, "GPT2": {}, "OPT": {}, "T5": {}, "MT5": {}, "UMT5": {},
    "InklingText": {}, "DeepseekV3": LATENT, "MiniCPM3": LATENT, "GptOss": {}, "GraniteSWA": {}, "GraniteMoeSWA": {}, "MiMoV2Flash": {},
    "DeepseekV4": {}, "Flint": {}, "Gemma2": dict(attn_logit_softcapping=0.02), "VaultGemma": {}, "Whisper": {}, "ModernBert": {}, "Phi3": {},
}  # fmt: skip
PADDED = ["Llama", "Qwen2", "Qwen3", "Mistral", "Phi3", "Gemma2", "Gemma3Text", "Cohere2", "Llama4Text", "GptOss", "ModernBert", "T5",
          "Whisper"]  # fmt: skip
REFUSED = {  # family: the argument, and what its configuration needs
    "DeepseekV32": ("indices", LATENT), "GlmMoeDsa": ("indices", LATENT),
    "AXK2": ("indices", LATENT), "HYV4": ("indices", {}),
}  # fmt: skip
THEMSELVES = ["Bloom", "CodeGen", "XGLM", "Mpt", "GPTNeoXJapanese", "MegatronBert", "RoFormer", "RemBert"]


def pair_of(kind, extra):
    """A small random model, as weft and as eager compute it, and the arguments of a call."""
    family = getattr(transformers, f"{kind}Config", None)
    if family is None:
        pytest.skip(f"this transformers has no {kind}")
    usual, tokens = family(), torch.randint(3, 200, (2, 40), generator=torch.Generator().manual_seed(1))
    fields = {name: value for name, value in TINY.items() if getattr(usual, name, None) is not None}
    seq2seq = usual.is_encoder_decoder
    auto = transformers.AutoModelForSeq2SeqLM if seq2seq else transformers.AutoModelForCausalLM
    auto = {"Whisper": transformers.AutoModelForSpeechSeq2Seq, "ModernBert": transformers.AutoModelForMaskedLM}.get(kind, auto)
    torch.manual_seed(0)
    made = []
    for implementation in ("weft", "eager"):
        config = family(**{**fields, **extra})
        if getattr(config, "is_decoder", None) is False and not seq2seq:
            config.is_decoder = True
        made.append(auto.from_config(config, attn_implementation=implementation).eval())
    for name, parameter in made[0].named_parameters():
        if "sink" in name or not parameter.isfinite().all():
            torch.nn.init.normal_(parameter)
    made[1].load_state_dict(made[0].state_dict())
    if kind == "Whisper":  # two frames of sound make a key
        return (*made, dict(input_features=torch.randn(2, 16, 80), decoder_input_ids=tokens))
    return (*made, dict(input_ids=tokens, decoder_input_ids=tokens) if seq2seq else dict(input_ids=tokens))


@pytest.mark.filterwarnings("ignore:weft leaves")
@pytest.mark.parametrize("kind", EQUAL)
def test_families_as_eager_on_cpu(kind):
    """Logits, and the gradients of whatever has one, such as a bias that depends on the distance."""
    ours, theirs, call = pair_of(kind, EQUAL[kind])
    found, expected = (model(**call).logits for model in (ours, theirs))
    assert_logits(found.detach(), expected.detach())
    weight = torch.randn_like(expected)
    for logits in (found, expected):
        (logits * weight).sum().backward()
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters()):
        assert (mine.grad is None) == (other.grad is None), name
        if other.grad is not None:
            assert (mine.grad - other.grad).abs().max() <= 1e-3 * other.grad.abs().max() + 1e-6, name


@pytest.mark.parametrize("kind", PADDED)
@pytest.mark.parametrize("side", ["left", "right", "holes"])
def test_padded_batches_as_eager_on_cpu(kind, side, calls):
    """A row of 27 tokens beside one of 40: logits where there is a token."""
    ours, theirs, call = pair_of(kind, EQUAL.get(kind, {}))
    mask = torch.ones(2, 40, dtype=torch.long)
    mask[0, {"left": slice(0, 13), "right": slice(27, 40), "holes": slice(5, 18)}[side]] = 0
    names = ["decoder_attention_mask"] if kind == "Whisper" else ["attention_mask", "decoder_attention_mask"][: 2 if kind == "T5" else 1]
    with torch.no_grad():
        found, expected = (model(**call, **dict.fromkeys(names, mask)).logits for model in (ours, theirs))
    assert calls and (found - expected)[mask.bool()].abs().max() <= 1e-4 * expected[mask.bool()].abs().max()


@pytest.mark.parametrize("kind", ["Llama", "Mistral", "Gemma2", "GptOss", "Cohere2"])
def test_packed_batches_as_eager_on_cpu(kind, calls):
    """Three sequences in a row, kept apart by position_ids, or by cu_seq_lens beside them, as each by itself."""
    ours, theirs, call = pair_of(kind, EQUAL.get(kind, {}))
    tokens, lengths = call["input_ids"][:1], [9, 1, 30]
    positions = torch.cat([torch.arange(n) for n in lengths])[None]
    ends = torch.tensor([0, 9, 10, 40], dtype=torch.int32)
    packed = dict(cu_seq_lens_q=ends, cu_seq_lens_k=ends, max_length_q=30, max_length_k=30)
    with torch.no_grad():
        expected = torch.cat([theirs(part).logits for part in tokens.split(lengths, 1)], 1)
        for extra in ({}, packed) if kind != "GptOss" else (packed,):  # whose masks do not look at position_ids
            assert_logits(ours(tokens, position_ids=positions, use_cache=False, **extra).logits, expected)
    assert all("q_starts" in asked.arrays for *_, asked in calls)


@pytest.mark.filterwarnings("ignore:weft leaves")
@pytest.mark.parametrize("kind", REFUSED)
def test_families_refused_on_cpu(kind):
    """What torch would drop is refused by name, so that no parameter stays without a gradient either."""
    argument, extra = REFUSED[kind]
    ours, _, call = pair_of(kind, extra)
    for training in (False, True):
        with pytest.raises(weft.Unsupported, match=rf"^weft cannot .* with ({argument}) \(.*eager"):
            ours.train(training)(**call)


@pytest.mark.parametrize("kind", THEMSELVES)
def test_models_that_compute_attention_themselves_on_cpu(kind):
    """They would take "no mask", which stands for a causal one here, for "no mask"."""
    ours, _, call = pair_of(kind, {})
    with pytest.raises(weft.Unsupported, match="^weft cannot compute the attention of .* call no attention function.*eager"):
        ours(**call)


@pytest.mark.parametrize("kind", ["Llama", "GPT2", "OPT", "T5"])
def test_there_are_no_attention_weights_on_cpu(kind):
    ours, theirs, call = pair_of(kind, {})
    with pytest.raises(weft.Unsupported, match="output_attentions .*weft never holds the attention weights"):
        ours(**call, output_attentions=True)
    ours(**call, output_attentions=False)


def test_packed_batches_by_lengths_alone_on_cpu():
    """Without position_ids only attention is told; positions go on."""
    ours, theirs = models("Llama", torch.float32, "cpu")
    tokens, ends = torch.randint(0, 211, (1, 40)), torch.tensor([0, 10, 40])
    packed = dict(cu_seq_lens_q=ends, cu_seq_lens_k=ends, max_length_q=30, max_length_k=30)
    apart = (torch.arange(40) < 10)[:, None] == (torch.arange(40) < 10)
    with torch.no_grad():
        expected = theirs(tokens, attention_mask=(apart & torch.ones(40, 40).tril().bool())[None, None]).logits
        assert_logits(ours(tokens, use_cache=False, **packed).logits, expected)
    positions = torch.cat([torch.arange(10), torch.arange(30)])[None]
    shifted = dict(packed, cu_seq_lens_q=ends + torch.tensor([0, 2, 0]))
    for arguments in (dict(shifted, position_ids=positions), dict(packed, attention_mask=(torch.arange(40) < 35).long()[None])):
        with pytest.raises(weft.Unsupported, match=r"cu_seq_lens_q .*position_ids"):
            ours(tokens, use_cache=False, **arguments)
    whole = torch.tensor([0, 40])
    ours(tokens, cu_seq_lens_q=whole, cu_seq_lens_k=whole)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_a_mask_of_the_caller_s_own_on_cpu(dtype, calls):
    ours, theirs = models("Llama", torch.float32, "cpu")
    tokens = torch.randint(0, 211, (2, 12))
    seen = torch.rand(2, 1, 12, 12) < 0.6
    seen |= torch.eye(12, dtype=torch.bool)
    mask = seen if dtype == torch.bool else torch.where(seen, 0.0, float("-inf"))
    with torch.no_grad():
        assert_logits(ours(tokens, attention_mask=mask).logits, theirs(tokens, attention_mask=mask).logits)
    assert calls


def test_training_with_dropout_on_cpu():
    ours, _, call = pair_of("T5", dict(dropout_rate=0.2))
    torch.manual_seed(1)
    first = ours.train()(**call).logits
    first.sum().backward()
    torch.manual_seed(1)
    assert torch.equal(first, ours(**call).logits) and not torch.equal(first, ours(**call).logits)
    assert all(parameter.grad.isfinite().all() for parameter in ours.parameters() if parameter.grad is not None)


def test_unknown_arguments_on_cpu():
    ours, _ = models("Llama", torch.float32, "cpu")
    with pytest.raises(weft.Unsupported, match="^weft cannot .* with score_mod "):
        ours(torch.randint(0, 211, (1, 9)), score_mod=3)


def test_compile_with_a_mask_on_cpu():
    ours, theirs = models("Llama", torch.float32, "cpu")
    tokens = torch.randint(1, 211, (2, 9))
    mask = torch.ones_like(tokens)
    mask[0, :3] = 0
    with torch.no_grad():
        found = torch.compile(ours, fullgraph=True, backend="eager")(tokens, attention_mask=mask).logits
        torch.testing.assert_close(found, theirs(tokens, attention_mask=mask).logits)
