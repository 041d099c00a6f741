# SPDX-License-Identifier: Apache-2.0
"""The backends for vLLM and SGLang, driven through stubs of these engines: prefill, mixed batches and decode over a paged cache, beside
plain attention of each request's whole history in fp64."""

import os
import sys

import numpy as np
import pytest
import weft
from oracle import assert_close, attention

torch = pytest.importorskip("torch", reason="torch is not importable here: its tests are skipped")
HEADS, KV_HEADS, DIM, DIM_V = 4, 2, 16, 16
# Tokens that each request adds, step by step; a request that is not there yet adds None.
STEPS = [(7, 5, None), (1, 4, 9), (1, 1, 1), (1, 1, 1), (None, 3, 1)]


@pytest.fixture(autouse=True)
def stubs(monkeypatch):
    """Stubs in the place of the engines, and weft's modules for them anew, so that no other test meets them."""
    monkeypatch.syspath_prepend(os.path.join(os.path.dirname(__file__), "engines"))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("vllm", "sglang") or name in ("weft.vllm", "weft.sglang"):
            del sys.modules[name]
            vars(weft).pop(name.partition(".")[2], None)


def normal(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


class Histories:
    """Requests and what they have seen; gives each step's tensors and what attention of them is."""

    def __init__(self, dtype):
        self.dtype, self.keys, self.values = dtype, {}, {}

    def step(self, counts):
        """The requests of a step with their tokens, and q, k and v of all tokens, one request's behind the other's."""
        here = [(i, n) for i, n in enumerate(counts) if n]
        total = sum(n for _, n in here)
        q, k, v = (normal(total, heads, dim, dtype=self.dtype) for heads, dim in ((HEADS, DIM), (KV_HEADS, DIM), (KV_HEADS, DIM_V)))
        at = 0
        for i, n in here:
            for held, new in ((self.keys, k), (self.values, v)):
                held[i] = torch.cat([held[i], new[at : at + n]]) if i in held else new[at : at + n]
            at += n
        return here, q, k, v

    def expected(self, here, q, **options):
        made, at = [], 0
        for i, n in here:
            k, v = (x[i][None].double().numpy() for x in (self.keys, self.values))
            made.append(attention(q[None, at : at + n].double().numpy(), k, v, **options)[0][0])
            at += n
        return np.concatenate(made)


def blocks_for(tables, free, here, histories, block):
    """Gives each request of a step as many blocks as its tokens need, from a list of free ones."""
    for i, _ in here:
        while len(tables.setdefault(i, [])) * block < len(histories.keys[i]):
            tables[i].append(free.pop())


VLLM_LAYOUTS = {
    "heads first, interleaved": lambda blocks, block, d: torch.full((blocks, KV_HEADS, block, 2 * d), float("nan")),
    "tokens first, interleaved": lambda blocks, block, d: torch.full((blocks, block, KV_HEADS, 2 * d), float("nan")).transpose(1, 2),
    "apart": lambda blocks, block, d: torch.full((2, blocks, block, KV_HEADS, d), float("nan")),
    "apart in each block": lambda blocks, block, d: torch.full((blocks, 2, block, KV_HEADS, d), float("nan")),
}
OPTIONS = {
    "causal": ({}, dict(causal=True)),
    "window": (dict(sliding_window=4), dict(causal=True, window=(3, 0))),
    "softcap and sinks": (dict(logits_soft_cap=5.0, sinks=torch.tensor([0.5, -1, 0, 2])),
                          dict(causal=True, softcap=5.0, sinks=[0.5, -1, 0, 2])),
    "alibi": (dict(alibi_slopes=[0.1, 0.2, 0.3, 0.4]), dict(causal=True, alibi=[0.1, 0.2, 0.3, 0.4])),
}  # fmt: skip


def vllm_metadata(here, histories, tables, block, padding, causal=True):
    """What vLLM's model runner gives the builder; the batch is padded by requests without tokens, and tokens without slots."""
    from vllm.v1.attention.backend import CommonAttentionMetadata

    counts = [n for _, n in here] + [0] * padding
    starts = torch.tensor(np.cumsum([0, *counts]), dtype=torch.int32)
    lengths = torch.tensor([len(histories.keys[i]) for i, _ in here] + [0] * padding, dtype=torch.int32)
    table = torch.full((len(counts), 9), -1, dtype=torch.int32)
    slots = []
    for row, (i, n) in enumerate(here):
        table[row, : len(tables[i])] = torch.tensor(tables[i])
        slots += [tables[i][at // block] * block + at % block for at in range(len(histories.keys[i]) - n, len(histories.keys[i]))]
    slots = torch.tensor(slots + [-1] * padding)
    return CommonAttentionMetadata(starts, starts, lengths, len(counts), int(starts[-1]), max(counts), int(lengths.max()), table[:, :7], slots,
                                   causal)  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("layout", VLLM_LAYOUTS)
def test_vllm(layout, name):
    from vllm.v1.attention.backends.registry import AttentionBackendEnum
    from weft.engines import register_with_vllm

    register_with_vllm()
    backend = AttentionBackendEnum.CUSTOM.get_class()
    assert not backend.forward_includes_kv_cache_update and backend.supports_head_size(DIM)
    given, meant = OPTIONS[name]
    impl = backend.get_impl_cls()(HEADS, DIM, DIM**-0.5, KV_HEADS, **{"kv_cache_dtype": "auto", **given})
    builder = backend.get_builder_cls()(None, ["layer"], None, torch.device("cpu"))
    torch.manual_seed(0)
    block, histories, tables = 4, Histories(torch.float32), {}
    cache, free = VLLM_LAYOUTS[layout](17, block, DIM), torch.randperm(17).tolist()
    for step, counts in enumerate(STEPS):
        here, q, k, v = histories.step(counts)
        blocks_for(tables, free, here, histories, block)
        padding = step % 3
        metadata = builder.build(0, vllm_metadata(here, histories, tables, block, padding))
        q, k, v = (torch.cat([x, normal(padding, *x.shape[1:])]) for x in (q, k, v))
        impl.do_kv_cache_update(None, k, v, cache, metadata.slot_mapping)
        output = torch.full((q.shape[0], HEADS, DIM), 7.0)
        assert impl.forward(None, q, k, v, cache, metadata, output) is output
        total = metadata.num_actual_tokens
        assert_close(output[:total], histories.expected(here, q, **meant), "float32")
        assert (output[total:] == 7).all()
    written = sum(len(x) for x in histories.keys.values())
    assert (~cache.isnan()).sum() == written * KV_HEADS * 2 * DIM  # nothing was written beside the slots


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_vllm_in_half_precision(dtype):
    from weft.vllm import WeftImpl, WeftMetadataBuilder

    impl, builder = WeftImpl(HEADS, DIM, 0.3, KV_HEADS), WeftMetadataBuilder(None, [], None, torch.device("cpu"))
    histories, tables = Histories(dtype), {}
    cache, free = torch.zeros(8, KV_HEADS, 16, 2 * DIM, dtype=dtype), list(range(8))
    for counts in [(19, 3), (1, 1), (1, 1)]:
        here, q, k, v = histories.step(counts)
        blocks_for(tables, free, here, histories, 16)
        metadata = builder.build(0, vllm_metadata(here, histories, tables, 16, 0))
        impl.do_kv_cache_update(None, k, v, cache, metadata.slot_mapping)
        output = impl.forward(None, q, k, v, cache, metadata, torch.empty_like(q))
        assert_close(output.float(), histories.expected(here, q, causal=True, scale=0.3), str(dtype)[6:])


@pytest.fixture
def prepared(monkeypatch):
    """The weft.Prepared of each attention."""
    seen, forward = [], weft.compute.attention_forward
    monkeypatch.setattr(weft.compute, "attention_forward", lambda *given: seen.append(given[-1].prepared) or forward(*given))
    return seen


def test_vllm_s_layers_share_what_is_prepared(prepared):
    from weft.vllm import WeftImpl, WeftMetadataBuilder

    builder, histories, cache = WeftMetadataBuilder(None, [], None, torch.device("cpu")), Histories(torch.float32), torch.zeros(2, KV_HEADS, 8, 2 * DIM)
    for _ in range(2):  # steps
        here, q, k, v = histories.step((1,))
        metadata = builder.build(0, vllm_metadata(here, histories, {0: [1]}, 8, 0))
        for _ in range(2):  # layers
            WeftImpl(HEADS, DIM, 0.25, KV_HEADS).forward(None, q, k, v, cache, metadata, torch.empty_like(q))
    assert [prepared.index(x) for x in prepared] == [0, 0, 2, 2] and all(isinstance(x, weft.Prepared) for x in prepared)


def test_vllm_s_weights_may_change():
    """Sinks are read at every call: an engine may load other weights."""
    from weft.vllm import WeftImpl, WeftMetadataBuilder

    sinks, builder = torch.zeros(HEADS, dtype=torch.bfloat16), WeftMetadataBuilder(None, [], None, torch.device("cpu"))
    impl, histories, cache = WeftImpl(HEADS, DIM, 0.25, KV_HEADS, sinks=sinks), Histories(torch.float32), torch.zeros(2, KV_HEADS, 8, 2 * DIM)
    here, q, k, v = histories.step((5,))
    metadata = builder.build(0, vllm_metadata(here, histories, {0: [1]}, 8, 0))
    impl.do_kv_cache_update(None, k, v, cache, metadata.slot_mapping)
    for value in (0.0, 3.0):
        sinks.fill_(value)
        output = impl.forward(None, q, k, v, cache, metadata, torch.empty_like(q))
        assert_close(output, histories.expected(here, q, causal=True, sinks=[value] * HEADS), "float32")


@pytest.mark.parametrize("given, meant", [
    ({}, {}), (dict(logits_soft_cap=5.0, sinks=torch.tensor([0.5, -1, 0, 2])), dict(softcap=5.0, sinks=[0.5, -1, 0, 2])),
])  # fmt: skip
def test_vllm_cascades(given, meant):
    """Requests share their first blocks, which are read once: a step of chunks, one of a token each, and one with padding."""
    from weft.vllm import WeftImpl, WeftMetadataBuilder

    impl, builder = WeftImpl(HEADS, DIM, 0.3, KV_HEADS, **given), WeftMetadataBuilder(None, [], None, torch.device("cpu"))
    histories, block = Histories(torch.float32), 4
    _, _, k, v = histories.step((2 * block,))
    cache, free = torch.full((20, KV_HEADS, block, 2 * DIM), float("nan")), torch.randperm(20).tolist()
    shared = [free.pop(), free.pop()]
    impl.do_kv_cache_update(None, k, v, cache, torch.tensor([shared[i // block] * block + i % block for i in range(2 * block)]))
    tables = {i: list(shared) for i in range(3)}
    for i in (1, 2):
        histories.keys[i], histories.values[i] = histories.keys[0], histories.values[0]
    for counts, padding in [((5, 1, 3), 0), ((1, 1, 1), 0), ((1, 4, None), 2)]:
        here, q, k, v = histories.step(counts)
        blocks_for(tables, free, here, histories, block)
        metadata, total = builder.build(2 * block, vllm_metadata(here, histories, tables, block, padding)), q.shape[0]
        q, k, v = (torch.cat([x, normal(padding, *x.shape[1:])]) for x in (q, k, v))
        impl.do_kv_cache_update(None, k, v, cache, metadata.slot_mapping)
        output = impl.forward(None, q, k, v, cache, metadata, torch.full_like(q, 7))
        assert_close(output[:total], histories.expected(here, q, causal=True, scale=0.3, **meant), "float32")
        assert (output[total:] == 7).all()
    with pytest.raises(weft.Unsupported, match="cascades with a window"):
        WeftImpl(HEADS, DIM, 0.3, KV_HEADS, sliding_window=4).forward(None, q, k, v, cache, metadata, output)
    with pytest.raises(weft.Invalid, match="common_prefix_len 6 is no whole number of blocks of 4"):
        impl.forward(None, q, k, v, cache, builder.build(6, vllm_metadata(here, histories, tables, block, padding)), output)
    asks = dict(num_query_heads=HEADS, num_kv_heads=KV_HEADS, use_alibi=False, use_sliding_window=False, use_local_attention=False, num_sms=9)
    assert builder.use_cascade_attention(common_prefix_len=256, query_lens=np.ones(8), **asks)
    assert not builder.use_cascade_attention(common_prefix_len=255, query_lens=np.ones(8), **asks)
    assert not builder.use_cascade_attention(common_prefix_len=256, query_lens=np.ones(7), **asks)
    assert not builder.use_cascade_attention(common_prefix_len=256, query_lens=np.ones(8), **{**asks, "use_sliding_window": True})


def test_vllm_encoders_and_other_block_tables():
    from vllm.v1.attention.backend import AttentionType
    from weft.vllm import WeftImpl, WeftMetadataBuilder

    builder, histories = WeftMetadataBuilder(None, [], None, torch.device("cpu")), Histories(torch.float32)
    here, q, k, v = histories.step((5, 8))
    tables = {0: [3], 1: [2]}
    common = vllm_metadata(here, histories, tables, 8, 0, causal=False)
    encoder = WeftImpl(HEADS, DIM, 0.25, KV_HEADS, attn_type=AttentionType.ENCODER_ONLY, sliding_window=3)
    encoder.do_kv_cache_update(None, k, v, torch.empty(0), common.slot_mapping)
    output = encoder.forward(None, q, k, v, torch.empty(0), builder.build(0, common), torch.empty_like(q))
    assert_close(output, histories.expected(here, q, window=(2, 2)), "float32")
    decoder, cache = WeftImpl(HEADS, DIM, 0.25, KV_HEADS), torch.zeros(5, KV_HEADS, 8, 2 * DIM)
    other = vllm_metadata(here, histories, {0: [1], 1: [4]}, 8, 0)
    metadata = builder.update_block_table(builder.build(0, common), other.block_table_tensor, other.slot_mapping)
    decoder.do_kv_cache_update(None, k, v, cache, metadata.slot_mapping)
    output = decoder.forward(None, q, k, v, cache, metadata, torch.empty_like(q))
    assert_close(output, histories.expected(here, q), "float32")  # not causal, as the metadata says
    assert (decoder.forward(None, q, k, v, cache, None, output) == 0).all()


def test_vllm_refuses_by_name():
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
    from weft.engines import register_with_vllm
    from weft.vllm import WeftImpl, WeftMetadataBuilder, keys_and_values

    builder, histories = WeftMetadataBuilder(None, [], None, torch.device("cpu")), Histories(torch.float32)
    here, q, k, v = histories.step((5,))
    common = vllm_metadata(here, histories, {0: [0]}, 8, 0)
    with pytest.raises(weft.Unsupported, match="fp8"):
        WeftImpl(HEADS, DIM, 0.25, KV_HEADS, kv_cache_dtype="fp8")
    with pytest.raises(weft.Unsupported, match="output_scale"):
        WeftImpl(HEADS, DIM, 0.25, KV_HEADS).forward(None, q, k, v, None, builder.build(0, common), q, output_scale=q)
    common.causal = torch.ones(1)
    with pytest.raises(weft.Unsupported, match="causal"):
        builder.build(0, common)
    common.causal, common.rswa_prefix_lens = True, torch.ones(1)
    with pytest.raises(weft.Unsupported, match="rswa_prefix_lens"):
        builder.build(0, common)
    with pytest.raises(weft.Invalid, match="no layout"):
        keys_and_values(torch.zeros(3, 4, 5), 16)
    register_backend(AttentionBackendEnum.CUSTOM, "someone.Else")
    register_with_vllm()  # which leaves it
    with pytest.raises(ImportError):
        AttentionBackendEnum.CUSTOM.get_class()


class Runner:
    """SGLang's model runner, as far as a backend looks at it."""

    use_mla_backend, device, attention_chunk_size = False, torch.device("cpu"), 6

    def __init__(self, page_size, dtype=torch.float32):
        from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool

        self.page_size = page_size
        self.token_to_kv_pool = MHATokenToKVPool(64, page_size, dtype, KV_HEADS, DIM, 2, DIM_V)
        self.req_to_token_pool = type("Pool", (), {"req_to_token": torch.full((6, 40), 10**6, dtype=torch.int32)})()
        self.model_config = type("Config", (), {"context_len": 40})()


def sglang_batch(runner, rows, here, histories, tables, decode):
    from sglang.srt.model_executor.forward_batch_info import ForwardBatch, ForwardMode

    page, slots = runner.page_size, []
    for i, n in here:
        length = len(histories.keys[i])
        tokens = [tables[i][at // page] * page + at % page for at in range(length)]
        runner.req_to_token_pool.req_to_token[rows[i], :length] = torch.tensor(tokens, dtype=torch.int32)
        slots += tokens[length - n :]
    lengths = torch.tensor([len(histories.keys[i]) for i, _ in here])
    return ForwardBatch(ForwardMode.DECODE if decode else ForwardMode.MIXED, len(here), torch.tensor([rows[i] for i, _ in here]), lengths,
                        torch.tensor(slots), lengths, None if decode else torch.tensor([n for _, n in here]))  # fmt: skip


SGLANG_OPTIONS = {
    "causal": ({}, {}, dict(causal=True)),
    "window": (dict(sliding_window_size=3), {}, dict(causal=True, window=(3, 0))),
    "chunks": (dict(use_irope=True), {}, dict(causal=True, chunk=6)),
    "softcap and sinks": (dict(logit_cap=5.0), dict(sinks=torch.tensor([0.5, -1, 0, 2])), dict(causal=True, softcap=5.0, sinks=[0.5, -1, 0, 2])),
}  # fmt: skip


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("page", [1, 4])
@pytest.mark.parametrize("name", SGLANG_OPTIONS)
def test_sglang(name, page, graphs):
    from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS
    from sglang.srt.layers.radix_attention import RadixAttention
    from sglang.srt.server_args import ATTENTION_BACKEND_CHOICES
    from weft.engines import register_with_sglang

    register_with_sglang()
    assert "weft" in ATTENTION_BACKEND_CHOICES
    of_layer, of_call, meant = SGLANG_OPTIONS[name]
    runner = Runner(page)
    backend = ATTENTION_BACKENDS["weft"](runner)
    layer = RadixAttention(HEADS, DIM, DIM**-0.5, KV_HEADS, 1, v_head_dim=DIM_V, **of_layer)
    if graphs:
        backend.init_cuda_graph_state(5, 64)
    torch.manual_seed(0)
    histories, tables, rows, free = Histories(torch.float32), {}, [4, 1, 5], torch.randperm(64 // page).tolist()
    held = None
    for counts in STEPS:
        here, q, k, v = histories.step(counts)
        blocks_for(tables, free, here, histories, page)
        batch = sglang_batch(runner, rows, here, histories, tables, decode=all(n == 1 for _, n in here))
        (backend.init_forward_metadata_out_graph if graphs else backend.init_forward_metadata)(batch)
        if graphs:  # a graph has the addresses of its first run
            held = held or backend.forward_metadata.table.data_ptr()
            assert backend.forward_metadata.table.data_ptr() == held
        o = backend.forward(q.flatten(1), k, v, layer, batch, **of_call)
        assert o.shape == (q.shape[0], HEADS * DIM_V)
        assert_close(o.view(-1, HEADS, DIM_V), histories.expected(here, q, **meant), "float32")


def test_sglang_s_layers_share_what_is_prepared(prepared):
    import weft.sglang
    from sglang.srt.layers.radix_attention import RadixAttention

    runner, histories, tables, free = Runner(1), Histories(torch.float32), {}, list(range(64))
    backend = weft.sglang.WeftAttentionBackend(runner)
    for _ in range(2):  # steps
        here, q, k, v = histories.step((1,))
        blocks_for(tables, free, here, histories, 1)
        batch = sglang_batch(runner, [2], here, histories, tables, True)
        backend.init_forward_metadata(batch)
        for layer in range(2):
            backend.forward(q, k, v, RadixAttention(HEADS, DIM, 0.25, KV_HEADS, layer), batch)
    assert [prepared.index(x) for x in prepared] == [0, 0, 2, 2] and all(isinstance(x, weft.Prepared) for x in prepared)


def test_sglang_has_few_plans(monkeypatch):
    """Tables have widths of powers of 2, so steps share plans."""
    import weft.sglang
    from sglang.srt.layers.radix_attention import RadixAttention

    made, plan = [], weft.plans.Plan
    monkeypatch.setattr(weft.plans, "Plan", lambda *x, **y: made.append(x) or plan(*x, **y))
    runner = Runner(1)
    backend, layer = weft.sglang.WeftAttentionBackend(runner), RadixAttention(HEADS, DIM, 0.123, KV_HEADS, 0)
    histories, tables, free = Histories(torch.float32), {}, list(range(64))
    for _ in range(20):
        here, q, k, v = histories.step((1,))
        blocks_for(tables, free, here, histories, 1)
        batch = sglang_batch(runner, [2], here, histories, tables, True)
        backend.init_forward_metadata(batch)
        backend.forward(q, k, v, layer, batch)
    assert len(made) == 6  # of 1, 2, 4, 8, 16 and 32 pages


@pytest.mark.parametrize("has_qv", [True, False])
@pytest.mark.parametrize("page", [1, 4])
def test_sglang_latent_attention(page, has_qv, monkeypatch):
    """MLA as SGLang's models call a backend that they do not know: a first prompt with heads of its own, then over the latent cache."""
    import weft.sglang
    from sglang.srt.layers.radix_attention import RadixAttention
    from sglang.srt.mem_cache.memory_pool import KVWriteLoc, MLATokenToKVPool

    rank, rope, runner, real = 24, 8, Runner(page), weft.compute.attention
    runner.use_mla_backend, runner.token_to_kv_pool = True, MLATokenToKVPool(64, page, torch.float32, rank, rope, 2)
    tried = []

    def without_qv(*x, qv=None, **y):
        tried.append(qv is not None)
        if qv is not None:
            raise weft.Unsupported("no CUDA kernel fits")
        return real(*x, **y)

    if not has_qv:
        monkeypatch.setattr(weft.compute, "attention", without_qv)
    backend = weft.sglang.WeftAttentionBackend(runner)
    mqa = RadixAttention(HEADS, rank + rope, 0.2, 1, 1, v_head_dim=rank)
    mha = RadixAttention(HEADS, 12, 0.2, HEADS, 1, v_head_dim=10)
    histories, tables, rows, free = Histories(torch.float32), {}, [4, 1, 5], torch.randperm(64 // page).tolist()
    torch.manual_seed(0)
    for step, counts in enumerate(STEPS):
        here, _, _, _ = histories.step(counts)
        blocks_for(tables, free, here, histories, page)
        batch = sglang_batch(runner, rows, here, histories, tables, decode=all(n == 1 for _, n in here))
        backend.init_forward_metadata(batch)
        tokens = len(batch.out_cache_loc)
        q, latent = normal(tokens, HEADS, rank + rope), normal(tokens, 1, rank + rope)
        if step == 0:  # the model writes to the pool by itself
            runner.token_to_kv_pool.set_kv_buffer(mqa, KVWriteLoc(batch.out_cache_loc), latent, None)
            q, k, v = normal(tokens, HEADS, 12), normal(tokens, HEADS, 12), normal(tokens, HEADS, 10)
            o = backend.forward(q, k, v, mha, batch, save_kv_cache=False)
            starts = np.cumsum([0, *(n for _, n in here)])
            expected = attention(*(x[None].double().numpy() for x in (q, k, v)), causal=True, scale=0.2, q_starts=starts)[0][0]
            assert_close(o.view(-1, HEADS, 10), expected, "float32")
            with pytest.raises(weft.Unsupported, match="over a latent cache"):
                batch.extend_prefix_lens_cpu = [0, 3]
                backend.forward(q, k, v, mha, batch, save_kv_cache=False)
            continue
        o = backend.forward(q.flatten(1), latent, latent[..., :rank], mqa, batch)
        made, at = [], 0
        for i, n in here:
            length = len(histories.keys[i])
            slots = runner.req_to_token_pool.req_to_token[rows[i], :length].long()
            keys = runner.token_to_kv_pool.kv_buffer[1][slots][None].double().numpy()
            made.append(attention(q[None, at : at + n].double().numpy(), keys, keys[..., :rank], causal=True, scale=0.2)[0][0])
            at += n
        assert_close(o.view(-1, HEADS, rank), np.concatenate(made), "float32")
    assert has_qv or tried.count(True) == 1


def test_sglang_refuses_by_name():
    import weft.sglang
    from sglang.srt.layers.radix_attention import RadixAttention
    from sglang.srt.model_executor.forward_batch_info import ForwardMode

    runner = Runner(1)
    backend, histories, tables = weft.sglang.WeftAttentionBackend(runner), Histories(torch.float32), {}
    here, q, k, v = histories.step((2,))
    blocks_for(tables, list(range(8)), here, histories, 1)
    batch = sglang_batch(runner, [2], here, histories, tables, False)
    with pytest.raises(weft.Unsupported, match="cross attention"):
        backend.forward(q, k, v, RadixAttention(HEADS, DIM, 0.25, KV_HEADS, 0, is_cross_attention=True), batch)
    with pytest.raises(weft.Unsupported, match="q_rope"):
        backend.forward(q, k, v, RadixAttention(HEADS, DIM, 0.25, KV_HEADS, 0), batch, q_rope=q)
    batch.forward_mode = ForwardMode.TARGET_VERIFY
    with pytest.raises(weft.Unsupported, match="TARGET_VERIFY"):
        backend.init_forward_metadata(batch)
    runner.token_to_kv_pool.translate_loc_from_full_to_swa = None
    with pytest.raises(weft.Unsupported, match="sliding windows"):
        weft.sglang.WeftAttentionBackend(runner)
