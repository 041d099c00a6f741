# SPDX-License-Identifier: Apache-2.0
"""attn_implementation="weft": weft as an attention function of Hugging Face transformers.

A model calls it with q, k, v, a mask, and by name whatever else its attention needs. Weft computes all of it, or refuses it by name, as
the result would be wrong; nothing is left out. masks.py says what queries see.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional

from .errors import Unsupported

# Arguments without an effect on attention: they are for other layers or other implementations, or the mask holds what they say.
HARMLESS = frozenset((
    "cache_position", "deterministic", "max_length_k", "max_length_q", "mm_token_type_ids", "num_items_in_batch", "output_hidden_states",
    "output_router_logits", "position_ids", "return_dict", "token_type_ids", "use_cache",
))  # fmt: skip
TAKEN = frozenset(("cu_seq_lens_q", "cu_seq_lens_k", "position_bias", "s_aux", "sliding_window", "softcap"))
# What continuous batching hands over beside its cache: places in the cache, which the cache reads, and what is for the logits.
WITH_CACHE = frozenset(("cache", "read_index", "write_index", "logits_indices", "logits_processor_args"))
MEANING = {
    "block_indices": "blocks of keys that were chosen for each query",
    "block_table": "a step of continuous batching that writes to its cache by a table",
    "cache": "a KV cache that is not transformers' PagedAttentionCache",
    "indices": "keys that were chosen for each query",
    "output_attentions": "weft never holds the attention weights, so there are none to return",
    "seq_idx": "a packed batch without position_ids or cu_seq_lens_q",
    "cu_seq_lens_q": "a packed batch that the mask contradicts",
}


def refuse(argument: str) -> None:
    meaning = MEANING.get(argument, "which weft does not know")
    remedy = 'load the model with attn_implementation="eager"'
    if argument in ("seq_idx", "cu_seq_lens_q"):
        remedy = "pass position_ids that begin anew with each sequence, and use_cache=False"
    raise Unsupported(f"weft cannot compute an attention with {argument} ({meaning}): {remedy}")


def check_arguments(options: Mapping[str, Any], packed: bool) -> None:
    """Refuses the first argument that would be dropped. packed: whether the mask or another argument keeps sequences apart."""
    for name, value in options.items():
        if value is None or value is False or name in HARMLESS or name in TAKEN or (name == "seq_idx" and packed):
            continue
        refuse(name)


def _collects_weights(module) -> bool:
    """Whether the model is to return attention weights although its attention is not told: hooks collect them then."""
    try:
        from transformers.utils.output_capturing import _active_collector
    except ImportError:  # an older transformers
        return getattr(getattr(module, "config", None), "output_attentions", False)
    return any(name.endswith("attentions") for name in _active_collector.get() or ())


def _seen_without_mask(module, query, key, is_causal: Optional[bool], window: Optional[int]) -> Dict[str, Any]:
    """What queries see where there is no mask: one query is the newest and sees every key; more are as many as there are keys."""
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    causal = bool(query.shape[2] > 1 and causal)
    seen: Dict[str, Any] = dict(causal=causal, offset=0 if causal else None)
    if window is not None and key.shape[2] > window:
        seen["window"] = (window - 1, 0 if causal or query.shape[2] == 1 else window - 1)
    return seen


def _with_starts(seen: Dict[str, Any], options: Mapping[str, Any], batch: int) -> Dict[str, Any]:
    """What queries see, with the lengths of a packed batch, which the mask must not contradict."""
    import torch

    starts = options.get("cu_seq_lens_q")
    if starts is None or len(starts) <= 2:
        return seen
    keys = options.get("cu_seq_lens_k")
    keys = starts if keys is None else keys
    if batch != 1 or "bias" in seen or "kv_used" in seen or "kv_pad" in seen:
        refuse("cu_seq_lens_q")
    for other in (starts, keys):
        if "q_starts" in seen and not torch.equal(seen["q_starts"].to(other), other):
            refuse("cu_seq_lens_q")
    return {**seen, "q_starts": starts, "kv_starts": keys, "offset": None}


def _from_paged_cache(module, key, value, options: Dict[str, Any]):
    """The keys and values of all sequences of continuous batching, one's behind the other's, new ones written to the cache; and what
    queries see of them. The cache puts the lengths of this layer's keys in the place of those of all layers."""
    if not hasattr(options["cache"], "update"):
        refuse("cache")
    if options.get("block_table") is not None:
        refuse("block_table")
    key, value = options["cache"].update(key_states=key, value_states=value, layer_idx=module.layer_idx, kwargs=options)
    seen = {"causal": True, "q_starts": options["cu_seq_lens_q"], "kv_starts": options["cu_seq_lens_k"]}
    window = options.get("sliding_window")
    for name in WITH_CACHE:
        options.pop(name, None)
    return key, value, {**seen, "window": (window - 1, 0)} if window else seen


def _with_bias(seen: Dict[str, Any], position_bias) -> Dict[str, Any]:
    """What queries see, with a bias that depends on the distance."""
    import torch

    mask = seen.get("bias")
    if position_bias is None:
        return seen
    if mask is not None and mask.dtype == torch.bool:
        position_bias = position_bias.masked_fill(~mask, float("-inf"))
    elif mask is not None:
        position_bias = position_bias + mask
    return {**seen, "bias": position_bias}


def _seed(dropout: float) -> int:
    import torch

    if not dropout:
        return 0
    if torch.compiler.is_compiling():
        raise Unsupported("weft cannot compute dropout under torch.compile yet: set attention_dropout to 0")
    return int(torch.randint(2**63 - 1, ()))


def _attention_function(weft_attention: Callable[..., Any], mask_type: type):
    """transformers' attention function: q, k, v (batch, heads, seq, head_dim) in, (batch, seq, heads, head_dim) out."""

    def attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, **options):
        options["output_attentions"] = options.get("output_attentions") or _collects_weights(module)
        if options.get("cache") is not None:
            key, value, seen = _from_paged_cache(module, key, value, options)
        elif attention_mask is None:
            seen = _seen_without_mask(module, query, key, is_causal, options.get("sliding_window"))
        elif isinstance(attention_mask, mask_type) and attention_mask.lengths == (query.shape[2], key.shape[2]):
            seen = dict(attention_mask.seen)
        else:
            seen = {"bias": attention_mask.tensor if isinstance(attention_mask, mask_type) else attention_mask}
        if "kv_starts" not in seen:
            seen = _with_starts(seen, options, query.shape[0])
        seen = _with_bias(seen, options.get("position_bias"))
        check_arguments(options, "q_starts" in seen or "bias" in seen)
        sinks = options.get("s_aux")
        o = weft_attention(query, key, value, scale=scaling, layout="bhsd", softcap=options.get("softcap"), dropout=dropout or None,
                           sinks=None if sinks is None else sinks.flatten(), seed=_seed(dropout), **seen)  # fmt: skip
        return o.transpose(1, 2).contiguous(), None

    return attention


def _calls_attention_functions(config: type) -> bool:
    """Whether the models of a configuration call attention functions: some compute attention themselves."""
    from transformers import PreTrainedModel

    models, classes = [], [PreTrainedModel]
    while classes:
        found = classes.pop()
        classes += found.__subclasses__()
        models += [found] if getattr(found, "config_class", None) is config else []
    return not models or any(
        getattr(model, "_supports_attention_backend", False) or getattr(model, "_supports_sdpa", False) for model in models
    )


def _mask_function(make: Callable[..., Any]):
    """transformers' mask function: what masks.py makes, for models that call an attention function."""
    import torch

    calls_attention_functions = torch.compiler.assume_constant_result(_calls_attention_functions)

    def mask(*arguments, config=None, **options):
        # Such a model would take "no mask" for "every query sees every key".
        if config is not None and not calls_attention_functions(type(config)):
            raise Unsupported(f"weft cannot compute the attention of {config.model_type} models, which do it themselves and call no "
                              'attention function: load the model with attn_implementation="eager"')  # fmt: skip
        return make(*arguments, config=config, **options)

    return mask


def register(name: str, weft_attention: Callable[..., Any]) -> None:
    """Makes an attention function known by name: weft.torch.attention()."""
    from transformers import AttentionInterface, AttentionMaskInterface

    from . import masks

    AttentionInterface.register(name, _attention_function(weft_attention, masks.Mask))
    AttentionMaskInterface.register(name, _mask_function(masks.make))
