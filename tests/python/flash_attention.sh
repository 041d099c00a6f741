#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# FlashAttention's own tests through weft.flash_attn. They are not part of this repository: TESTS is tests/test_flash_attn.py of a
# checkout of FlashAttention, or FlashAttention-3's, hopper/test_flash_attn.py.
#   tests/python/flash_attention.sh TESTS [DEVICE] [arguments of pytest]
# DEVICE is cpu or cuda (default: where there is a GPU, cuda). WEFT_LIBRARY names the libweft.so (default: build/release/libweft.so),
# WEFT_PYTHON the interpreter, which has torch, pytest and einops. Of the cases with at most WEFT_LENGTH queries and keys (default: all)
# that need no FP8, qv or flash_attn_combine, one in WEFT_STRIDE runs (default: every one). Gradients that weft does not have count as
# right, and the last line says how many; with WEFT_FORWARD=1 none is computed.
set -eu
tests=$(realpath "${1:?the test_flash_attn.py of FlashAttention}")
cd "$(dirname "$0")/../.."
shift
device=
case ${1:-} in cpu | cuda) device=$1 && shift ;; esac
export WEFT_LIBRARY="${WEFT_LIBRARY:-$PWD/build/release/libweft.so}" WEFT_DEVICE="$device" PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH="$PWD/python:$PWD/tests/python${PYTHONPATH:+:$PYTHONPATH}"
exec "${WEFT_PYTHON:-python3}" -m pytest -q -p no:cacheprovider -p flash_attention_tests --tb=line -rf "$@" "$tests"
