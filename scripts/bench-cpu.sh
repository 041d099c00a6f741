#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The CPU backend beside PyTorch and OpenBLAS: bench-cpu.sh BUILD [options of bench_cpu.py]
# Takes a python3 that has both; else makes an environment of its own in the build folder, from PyPI.
set -eu
build=$1
shift
python=python3
has_peers() { "$1" -c 'import numpy, torch' 2> /dev/null; }
if ! has_peers "$python"; then
    python=$build/bench-peers/bin/python
    if ! has_peers "$python" && ! { python3 -m venv "$build/bench-peers" && "$python" -m pip install --quiet numpy torch; }; then
        echo "bench-cpu: skipped: no PyTorch here, and it could not be installed" >&2
        exit 0
    fi
fi
exec "$python" bench/bench_cpu.py "$build" "$@"
