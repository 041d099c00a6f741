# SPDX-License-Identifier: Apache-2.0
"""Which arguments of transformers' attention weft takes: the rule by itself, without torch and transformers."""

import pytest
import weft
from weft.transformers import HARMLESS, MEANING, TAKEN, check_arguments


def check(packed=False, **options):
    check_arguments(options, packed)


@pytest.mark.parametrize("argument", [*sorted(MEANING.keys() - TAKEN), "score_mod"])
def test_refused_by_name(argument):
    with pytest.raises(weft.Unsupported, match=rf"^weft cannot compute an attention with {argument} \(.+\): \w+") as error:
        check(use_cache=True, **{argument: 8})
    assert "sdpa" not in str(error.value)
    for unset in (None, False):
        check(**{argument: unset})


def test_says_what_to_do():
    with pytest.raises(weft.Unsupported, match=r'score_mod \(which weft does not know\): load the model with attn_implementation="eager"'):
        check(score_mod=1)
    with pytest.raises(weft.Unsupported, match=r"output_attentions \(weft never holds the attention weights"):
        check(output_attentions=True)
    with pytest.raises(weft.Unsupported, match="pass position_ids"):
        check(seq_idx=[0, 0, 1])


def test_taken():
    check(**dict.fromkeys((*HARMLESS, *TAKEN), 1))
    check(packed=True, seq_idx=[0, 1])
