"""Which arguments of transformers' attention weft takes: the rule by itself, without torch and transformers."""

import pytest
import weft
from weft.transformers import HARMLESS, MEANING, check_arguments


def check(by_torch=(), keys=100, masked=False, **options):
    check_arguments(options, by_torch, keys, masked)


@pytest.mark.parametrize("argument", [*MEANING, "score_mod"])
def test_refused_by_name(argument):
    value = [0, 10, 40] if argument.startswith("cu_") else 8
    with pytest.raises(weft.Unsupported, match=rf"^weft cannot compute an attention with {argument} \(.+\): \w+") as error:
        check(use_cache=True, **{argument: value})
    assert "sdpa" not in str(error.value)
    for unset in (None, False):
        check(**{argument: unset})


def test_says_what_to_do():
    with pytest.raises(weft.Unsupported, match=r's_aux \(attention sinks\): load the model with attn_implementation="eager"'):
        check(s_aux=[1.0])
    with pytest.raises(weft.Unsupported, match=r"output_attentions \(weft never holds the attention weights"):
        check(output_attentions=True)
    with pytest.raises(weft.Unsupported, match="pass position_ids"):
        check(seq_idx=[0, 0, 1])


def test_taken():
    check(**dict.fromkeys(HARMLESS, 1))
    check(by_torch={"position_bias"}, position_bias=1)
    check(masked=True, sliding_window=8, cu_seq_lens_q=[0, 10, 40], cu_seq_lens_k=[0, 10, 40], seq_idx=[0, 1])
    check(keys=8, sliding_window=8, cu_seq_lens_q=[0, 8])
    with pytest.raises(weft.Unsupported, match="sliding_window"):
        check(keys=9, sliding_window=8)
    with pytest.raises(weft.Unsupported, match="position_bias"):  # a torch function that drops it
        check(position_bias=1)
