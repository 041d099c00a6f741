#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Python package on a GPU: torch, CuPy, JAX and transformers, each where it is importable, with pytest and hypothesis.
#   tests/python/gpu.sh [LIBRARY] [arguments of pytest]
# LIBRARY is a libweft.so with kernels (default: build/release/libweft.so); the package is taken from python/. WEFT_PYTHON names the
# interpreter. A failure is one line; with --tb=short as an argument, more. Exits 77, which stands for skipped, where there is no GPU.
set -eu
cd "$(dirname "$0")/../.."
python=${WEFT_PYTHON:-python3}
library=$PWD/build/release/libweft.so
if [ $# -gt 0 ] && [ -f "$1" ]; then
    library=$(realpath "$1")
    shift
fi

if ! nvidia-smi -L >/dev/null 2>&1; then
    echo "skipped: no GPU here"
    exit 77
fi
if ! "$python" -c "import pytest, hypothesis, torch" 2>/dev/null; then
    echo "skipped: $python has no pytest, hypothesis or torch; WEFT_PYTHON names another"
    exit 77
fi
if [ ! -f "$library" ]; then
    echo "there is no library at $library: run make CUDA=1, or name one" >&2
    exit 2
fi
# JAX shares the GPU with torch here, so it takes memory as it needs it.
export WEFT_LIBRARY="$library" PYTHONPATH="$PWD/python${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1 \
    XLA_PYTHON_CLIENT_PREALLOCATE=false
# What these files have for the CPU, tests/python/run.sh runs.
exec "$python" -m pytest -q -rs --tb=line -p no:cacheprovider --durations=8 -k "not cpu" tests/python/test_gpu.py \
    tests/python/test_gpu_features.py tests/python/test_jax.py tests/python/test_jax_products.py tests/python/test_numbers.py tests/python/test_xla_abi.py tests/python/test_transformers.py "$@"
