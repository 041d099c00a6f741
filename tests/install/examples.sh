#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The examples in other languages are built as a program outside of this tree builds them, and run.
#   examples.sh BUILD_DIRECTORY cpp|rust
# Exits 77, which stands for skipped, where there is no compiler.
set -eu
build=$1
examples=$(cd "$(dirname "$0")/../../examples" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "failed: $1"
    exit 1
}

case $2 in
cpp)
    command -v g++ >/dev/null || { echo "skipped: there is no g++"; exit 77; }
    cmake --install "$build" --prefix "$work/prefix" >/dev/null
    cmake -S "$examples/cpp" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" >/dev/null
    cmake --build "$work/build" >/dev/null
    "$work/build/two_orders" gb10 raster-m hilbert 2>"$work/said" && fail "it takes orders of another grid"
    grep -q '^two_orders: ' "$work/said" || fail "it does not say what is wrong"
    "$work/build/two_orders" gb10 reverse longest-first
    ;;
rust)
    command -v rustc >/dev/null || { echo "skipped: there is no rustc"; exit 77; }
    rustc --edition 2021 -O -D warnings "$examples/rust/attention.rs" -o "$work/attention" -L "$build" -l weft
    LD_LIBRARY_PATH=$build "$work/attention"
    ;;
*) fail "there are no examples in $2" ;;
esac
