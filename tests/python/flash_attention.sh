#!/bin/sh
# FlashAttention's own tests through weft.flash_attn: pytest on a checkout of FlashAttention, which is not part of this repository.
#   tests/python/flash_attention.sh CHECKOUT [DEVICE] [arguments of pytest]
# DEVICE is cpu or cuda (default: where there is a GPU, cuda). WEFT_LIBRARY names the libweft.so (default: build/release/libweft.so),
# WEFT_PYTHON the interpreter, which has torch, pytest and einops. Every STRIDE-th case runs, of those with at most LENGTH queries and
# keys: WEFT_STRIDE (default 1), WEFT_LENGTH (default: all). On a GPU gradients count as right, as weft has none there yet.
set -eu
cd "$(dirname "$0")/../.."
checkout=${1:?a checkout of FlashAttention}
shift
device=
case ${1:-} in cpu | cuda) device=$1 && shift ;; esac
export WEFT_LIBRARY="${WEFT_LIBRARY:-$PWD/build/release/libweft.so}" WEFT_DEVICE="$device" PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH="$PWD/python:$PWD/tests/python${PYTHONPATH:+:$PYTHONPATH}"
exec "${WEFT_PYTHON:-python3}" -m pytest -q -p no:cacheprovider -p flash_attention_tests --tb=line -rf "$@" "$checkout/tests/test_flash_attn.py"
