"""attn_implementation="weft": weft as an attention function of Hugging Face transformers.

A model calls it with q, k, v, a mask, and by name whatever else its attention needs. What weft cannot do and torch can is left to torch,
and a warning says so. What both would drop is refused by name, as the result would be wrong.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Collection, Mapping, Optional

from .errors import Unsupported

# Arguments without an effect on attention: they are for other layers or other implementations, or the mask holds what they say.
HARMLESS = frozenset((
    "cache_position", "deterministic", "max_length_k", "max_length_q", "mm_token_type_ids", "num_items_in_batch", "output_hidden_states",
    "output_router_logits", "position_ids", "return_dict", "token_type_ids", "use_cache",
))  # fmt: skip
# Lengths of the sequences of a packed batch: the mask has to hold them.
PACKED = ("cu_seq_lens_q", "cu_seq_lens_k", "seq_idx")
MEANING = {
    "block_indices": "blocks of keys that were chosen for each query",
    "cache": "a paged KV cache",
    "indices": "keys that were chosen for each query",
    "output_attentions": "weft never holds the attention weights, so there are none to return",
    "s_aux": "attention sinks",
    "sliding_window": "a window without a mask that holds it",
    "softcap": "a soft cap on the scores",
    **dict.fromkeys(PACKED, "a packed batch without a mask that keeps its sequences apart"),
}


def refuse(argument: str) -> None:
    meaning = MEANING.get(argument, "which weft does not know")
    remedy = 'load the model with attn_implementation="eager"'
    if argument in PACKED:  # transformers then makes such a mask
        remedy = "pass position_ids that begin anew with each sequence, and use_cache=False"
    raise Unsupported(f"weft cannot compute an attention with {argument} ({meaning}): {remedy}")


def check_arguments(options: Mapping[str, Any], by_torch: Collection[str], keys: int, masked: bool) -> None:
    """Refuses the first argument that would be dropped.

    by_torch: arguments that torch takes into account; keys: how many there are; masked: whether there is a mask.
    """
    for name, value in options.items():
        if value is None or value is False or name in HARMLESS or name in by_torch:
            continue
        if name == "sliding_window" and (masked or keys <= value):
            continue
        if name in PACKED and (masked or (name != "seq_idx" and len(value) <= 2)):
            continue
        refuse(name)


def _keeps_apart(mask, queries, keys) -> bool:
    """Whether no query sees a key of another sequence; queries and keys are cu_seq_lens, where sequences begin and end."""
    import torch

    seen = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min
    of_query, of_key = (
        torch.bucketize(torch.arange(length, device=mask.device), ends.to(mask.device), right=True)
        for length, ends in zip(mask.shape[-2:], (queries, keys))
    )
    return not (seen & (of_query[:, None] != of_key)).any()


def _why_torch(attention_mask, dropout: float, options: Mapping[str, Any], key, value) -> Optional[str]:
    if attention_mask is not None:
        return "it has a mask that is not plainly causal"
    if dropout:
        return "it has dropout"
    if options.get("position_bias") is not None:
        return "it has position_bias"
    if key.shape[-1] != value.shape[-1]:
        return f"its keys have head_dim {key.shape[-1]} and its values {value.shape[-1]}"
    return None


def _collects_weights(module) -> bool:
    """Whether the model is to return attention weights although its attention is not told: hooks collect them then."""
    try:
        from transformers.utils.output_capturing import _active_collector
    except ImportError:  # an older transformers
        return getattr(getattr(module, "config", None), "output_attentions", False)
    return any(name.endswith("attentions") for name in _active_collector.get() or ())


def _attention_function(weft_attention: Callable[..., Any], announce: Callable[[str], None]):
    """transformers' attention function: q, k, v (batch, heads, seq, head_dim) in, (batch, seq, heads, head_dim) out."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    by_torch = {"position_bias"} & set(inspect.signature(sdpa_attention_forward).parameters)

    def attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, **options):
        options["output_attentions"] = options.get("output_attentions") or _collects_weights(module)
        check_arguments(options, by_torch, key.shape[2], attention_mask is not None)
        ends = [options.get(name) for name in PACKED[:2]]
        if attention_mask is not None and None not in ends and not _keeps_apart(attention_mask, *ends):
            refuse(PACKED[0])
        reason = _why_torch(attention_mask, dropout, options, key, value)
        if reason:
            announce(reason)
            kept = {name: options[name] for name in by_torch if name in options}
            return sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling,
                                          is_causal=is_causal, **kept)  # fmt: skip
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        # Without a mask, one query is the newest and sees every key; more queries are as many as there are keys.
        causal = bool(query.shape[2] > 1 and causal)
        o = weft_attention(query, key, value, causal=causal, scale=scaling, offset=0 if causal else None, layout="bhsd")
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


def _mask_function():
    """transformers' mask function, as for torch's attention: no mask where it would be plainly causal."""
    import torch
    from transformers.masking_utils import sdpa_mask

    calls_attention_functions = torch.compiler.assume_constant_result(_calls_attention_functions)

    def mask(*arguments, config=None, **options):
        # Such a model would take "no mask" for "every query sees every key".
        if config is not None and not calls_attention_functions(type(config)):
            raise Unsupported(f"weft cannot compute the attention of {config.model_type} models, which do it themselves and call no "
                              'attention function: load the model with attn_implementation="eager"')  # fmt: skip
        return sdpa_mask(*arguments, config=config, **options)

    return mask


def register(name: str, weft_attention: Callable[..., Any], announce: Callable[[str], None]) -> None:
    """Makes an attention function known by name: weft.torch.attention(), with what says why torch does the work instead."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(name, _attention_function(weft_attention, announce))
    AttentionMaskInterface.register(name, _mask_function())
