#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Python package as it is in python/, in a virtual environment of the project's own; wheel.sh looks at the installed one.
#   tests/python/run.sh LIBRARY FOLDER [FAKE_DRIVER FAKE_LIBRARY FAKE_NCCL]
# LIBRARY is the libweft.so to test; FOLDER holds the environment between runs; the fakes of tests/cuda stand for a GPU.
# Exits 77, which stands for skipped, where the packages that the tests need cannot be had. torch, transformers and JAX are too large
# to fetch here; their tests run where WEFT_PYTHON names an interpreter that has them, with pytest and hypothesis.
set -eu
cd "$(dirname "$0")/../.."
library=$1
folder=$2
python=${WEFT_PYTHON:-$folder/bin/python}

if [ -z "${WEFT_PYTHON:-}" ] && [ ! -e "$folder/ready" ]; then
    if ! /usr/bin/python3 -m venv "$folder" >"$folder.log" 2>&1; then
        echo "skipped: this Python makes no virtual environments: $(tail -n 1 "$folder.log")"
        exit 77
    fi
    if ! "$python" -m pip install --quiet --disable-pip-version-check numpy pytest hypothesis ml_dtypes >"$folder.log" 2>&1; then
        echo "skipped: pip cannot bring numpy, pytest, hypothesis and ml_dtypes: $(tail -n 1 "$folder.log")"
        exit 77
    fi
    # Without an MPI, or a wheel for it, ranks are tested as threads alone.
    "$python" -m pip install --quiet --disable-pip-version-check mpi4py >>"$folder.log" 2>&1 || true
    touch "$folder/ready"
fi

export WEFT_LIBRARY="$library" PYTHONPATH="$PWD/python" PYTHONDONTWRITEBYTECODE=1
"$python" -m pytest -q -rs -p no:cacheprovider tests/python
if [ $# -ge 4 ]; then # a process has one library and one driver
    WEFT_FAKE_CUDA=$3 WEFT_NCCL_LIBRARY=${5:-} WEFT_LIBRARY=$4 "$python" -m pytest -q -p no:cacheprovider tests/python/test_cuda.py
fi
