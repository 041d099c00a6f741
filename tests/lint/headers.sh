#!/bin/sh
# Every public header compiles alone: as C11 by gcc and clang, as C++17, and as CUDA where nvcc is.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
warnings="-Wall -Wextra -Wconversion -Wpedantic -Werror"
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
        nvcc -std=c++17 -arch=sm_80 -Werror all-warnings -Iinclude -c "$work/alone.cu" -o "$work/alone.o"
    fi
    count=$((count + 1))
done
command -v nvcc >/dev/null 2>&1 || echo "no nvcc: not compiled as CUDA"
echo "$count headers"
[ "$count" -gt 0 ]
