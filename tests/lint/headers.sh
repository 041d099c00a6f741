#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every public header compiles alone: as C11 by gcc and clang, as C++17, and as CUDA where nvcc is. There the host's half, which
# takes longer and is C++, is compiled for all of them together. dist_mpi.h needs MPI's header.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings="-Wall -Wextra -Wconversion -Wpedantic -Werror"
mpi=$(pkg-config --cflags-only-I ompi-c 2>/dev/null | sed 's/-I/-isystem /g' || true)
cuda="-std=c++17 -arch=sm_80 -Werror all-warnings -Iinclude"
count=0
for header in $(find include/weft -name '*.h' | LC_ALL=C sort); do
    name=${header#include/}
    if [ "$name" = weft/dist_mpi.h ] && [ -z "$mpi" ]; then
        echo "no MPI: $name is not compiled"
        continue
    fi
    echo "#include <$name>" >"$work/alone.c"
    cp "$work/alone.c" "$work/alone.cpp"
    cp "$work/alone.c" "$work/alone.cu"
    for compiler in gcc clang; do
        # shellcheck disable=SC2086 # a list of words on purpose
        $compiler -std=c11 $warnings $mpi -Iinclude -fsyntax-only "$work/alone.c"
    done
    # shellcheck disable=SC2086
    g++ -std=c++17 $warnings $mpi -Iinclude -fsyntax-only "$work/alone.cpp"
    if command -v nvcc >/dev/null 2>&1; then
        # shellcheck disable=SC2086
        nvcc $cuda $mpi -ptx "$work/alone.cu" -o "$work/alone.ptx"
        cat "$work/alone.c" >>"$work/all.cu"
    fi
    count=$((count + 1))
done
if [ -e "$work/all.cu" ]; then
    # shellcheck disable=SC2086
    nvcc $cuda $mpi -c "$work/all.cu" -o "$work/all.o"
else
    echo "no nvcc: not compiled as CUDA"
fi
echo "$count headers"
[ "$count" -gt 0 ]
