#!/bin/sh
# Every public header compiles alone: as C11 by gcc and clang, as C++17, and as CUDA where nvcc is. There the host's half, which
# takes longer and is C++, is compiled for all of them together.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings="-Wall -Wextra -Wconversion -Wpedantic -Werror"
cuda="-std=c++17 -arch=sm_80 -Werror all-warnings -Iinclude"
count=0
for header in $(find include/weft -name '*.h' | LC_ALL=C sort); do
    name=${header#include/}
    echo "#include <$name>" >"$work/alone.c"
    cp "$work/alone.c" "$work/alone.cpp"
    cp "$work/alone.c" "$work/alone.cu"
    for compiler in gcc clang; do
        # shellcheck disable=SC2086 # a list of words on purpose
        $compiler -std=c11 $warnings -Iinclude -fsyntax-only "$work/alone.c"
    done
    # shellcheck disable=SC2086
    g++ -std=c++17 $warnings -Iinclude -fsyntax-only "$work/alone.cpp"
    if command -v nvcc >/dev/null 2>&1; then
        # shellcheck disable=SC2086
        nvcc $cuda -ptx "$work/alone.cu" -o "$work/alone.ptx"
        cat "$work/alone.c" >>"$work/all.cu"
    fi
    count=$((count + 1))
done
if [ -e "$work/all.cu" ]; then
    # shellcheck disable=SC2086
    nvcc $cuda -c "$work/all.cu" -o "$work/all.o"
else
    echo "no nvcc: not compiled as CUDA"
fi
echo "$count headers"
[ "$count" -gt 0 ]
