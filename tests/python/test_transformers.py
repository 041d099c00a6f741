"""attn_implementation="weft" gives the logits of "sdpa", on small models with random weights; of "eager", or an error that says why not,
on a model of each family that wants more of an attention than q, k, v and a mask."""

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


# What is set in a family's configuration, where it has such a field.
TINY = dict(
    SIZES, n_embd=64, n_layer=2, n_head=4, d_model=64, d_kv=16, d_ff=64, num_layers=2, num_heads=4, hidden_size=64, head_dim=16, ffn_dim=64,
    global_head_dim=16, num_experts=4, num_local_experts=4, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
    n_shared_experts=1, n_group=1, topk_group=1, first_k_dense_replace=1, q_lora_rank=32, kv_lora_rank=32, qk_rope_head_dim=16,
    qk_nope_head_dim=16, v_head_dim=16, o_lora_rank=16, o_groups=2, index_n_heads=2, index_head_dim=32, index_topk=8, sliding_window=8,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, query_pre_attn_scalar=16, attention_dropout=0.0,
)  # fmt: skip
LATENT = dict(num_key_value_heads=4)  # latent attention has no groups of heads
EQUAL = {  # family: what its configuration needs
    "Mistral": {}, "Gemma3Text": {}, "Cohere2": {}, "Olmo3": {}, "Exaone4": {}, "Llama4Text": {}, "Doge": {}, "Afmoe": {},
    "ModernBertDecoder": {}, "Mixtral": {}, "GraniteMoeShared": {}, "StableLm": {}, "GPT2": {}, "OPT": {}, "T5": {}, "MT5": {}, "UMT5": {},
    "InklingText": {}, "DeepseekV3": LATENT, "MiniCPM3": LATENT,
}  # fmt: skip
REFUSED = {  # family: the argument, and what its configuration needs
    "GptOss": ("s_aux", {}), "GraniteSWA": ("s_aux", {}), "GraniteMoeSWA": ("s_aux", {}), "DeepseekV4": ("s_aux", {}),
    "MiMoV2Flash": ("s_aux", {}), "Flint": ("s_aux", {}), "Gemma2": ("softcap", {}), "VaultGemma": ("softcap", {}),
    "DeepseekV32": ("indices", LATENT), "GlmMoeDsa": ("indices", LATENT), "AXK2": ("indices", LATENT), "HYV4": ("indices|s_aux", {}),
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


def test_packed_batches_on_cpu():
    ours, theirs = models("Llama", torch.float32, "cpu")
    tokens, ends = torch.randint(0, 211, (1, 40)), torch.tensor([0, 10, 40])
    packed = dict(cu_seq_lens_q=ends, cu_seq_lens_k=ends, max_length_q=30, max_length_k=30)
    positions = torch.cat([torch.arange(10), torch.arange(30)])[None]
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="mask"):
        weft.torch._announced.clear()
        found = ours(tokens, position_ids=positions, use_cache=False, **packed).logits
        assert_logits(found, torch.cat([theirs(part).logits for part in tokens.split([10, 30], 1)], 1))
    shifted = dict(packed, cu_seq_lens_q=ends + torch.tensor([0, 2, 0]))
    for arguments in (packed, dict(shifted, position_ids=positions)):
        with pytest.raises(weft.Unsupported, match=r"cu_seq_lens_q .*position_ids"):
            ours(tokens, use_cache=False, **arguments)
    whole = torch.tensor([0, 40])
    ours(tokens, cu_seq_lens_q=whole, cu_seq_lens_k=whole)


def test_unknown_arguments_on_cpu():
    ours, _ = models("Llama", torch.float32, "cpu")
    with pytest.raises(weft.Unsupported, match="^weft cannot .* with score_mod "):
        ours(torch.randint(0, 211, (1, 9)), score_mod=3)


def test_compile_with_a_mask_on_cpu():
    ours, theirs = models("Llama", torch.float32, "cpu")
    tokens = torch.randint(1, 211, (2, 9))
    mask = torch.ones_like(tokens)
    mask[0, :3] = 0
    weft.torch._announced.clear()
    with torch.no_grad(), pytest.warns(RuntimeWarning, match="weft leaves an attention to torch: it has a mask"):
        found = torch.compile(ours, fullgraph=True, backend="eager")(tokens, attention_mask=mask).logits
        torch.testing.assert_close(found, theirs(tokens, attention_mask=mask).logits)
