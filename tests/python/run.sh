#!/bin/sh
# The Python package, in a virtual environment of the project's own: the wheel is made, installed and tested.
#   tests/python/run.sh LIBRARY FOLDER [FAKE]    LIBRARY goes into the wheel, FOLDER holds the environment between runs, FAKE is
#                                                the fake CUDA driver
# Exits 77, which stands for skipped, where the packages that the tests need cannot be had. torch, transformers and JAX are too large
# to fetch here; their tests run where WEFT_PYTHON names an interpreter that has them, with pytest and hypothesis.
set -eu
cd "$(dirname "$0")/../.."
library=$1
folder=$2
export WEFT_FAKE_CUDA="${3:-}"
python=$folder/bin/python

if [ -n "${WEFT_PYTHON:-}" ]; then
    mkdir -p "$folder/package"
    "$WEFT_PYTHON" -m pip install --quiet --no-deps --upgrade --target "$folder/package" --config-settings "library=$library" .
    PYTHONPATH=$folder/package exec "$WEFT_PYTHON" -m pytest -q -rs -p no:cacheprovider tests/python
fi

if [ ! -e "$folder/ready" ]; then
    if ! /usr/bin/python3 -m venv "$folder" >"$folder.log" 2>&1; then
        echo "skipped: this Python makes no virtual environments: $(tail -n 1 "$folder.log")"
        exit 77
    fi
    if ! "$python" -m pip install --quiet --disable-pip-version-check numpy pytest hypothesis ml_dtypes >"$folder.log" 2>&1; then
        echo "skipped: pip cannot bring numpy, pytest, hypothesis and ml_dtypes: $(tail -n 1 "$folder.log")"
        exit 77
    fi
    touch "$folder/ready"
fi
"$python" -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall --config-settings "library=$library" .
exec "$python" -m pytest -q -rs -p no:cacheprovider tests/python
