#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# weft_build(), by which tunings are kept: in a copy of the tree, what changes a backend's schedules or kernels changes its digest;
# comments, formatting and the other backend's code do not.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/docs"
cp -r CMakeLists.txt cmake include src cli machines mpi examples bench "$work"
cp -r docs/results "$work/docs"
cd "$work"
cmake -S . -B build -DWEFT_CUDA=OFF >/dev/null
passed=0

# Sets cpu and cuda to the digests of the tree as it is.
build() {
    cmake --build build --target weft_digest >/dev/null
    digests=$(grep -o '[0-9.]*-[0-9a-f]\{12\}' build/weft_build.c)
    cuda=$(echo "$digests" | sed -n 1p)
    cpu=$(echo "$digests" | sed -n 2p)
    [ -n "$cpu" ] && [ -n "$cuda" ] && [ "$cpu" != "$cuda" ]
}

expect() { # expect WHAT FILE SCRIPT CPU CUDA: what sed's SCRIPT does to FILE leaves each digest the same, or makes it another
    build
    cpu_before=$cpu cuda_before=$cuda
    cp "$2" before
    sed -i "$3" "$2"
    ! cmp -s "$2" before || { echo "$1: nothing changed in $2" && exit 1; }
    build
    cpu_is=same cuda_is=same
    [ "$cpu" = "$cpu_before" ] || cpu_is=other
    [ "$cuda" = "$cuda_before" ] || cuda_is=other
    [ "$cpu_is $cuda_is" = "$4 $5" ] || { echo "$1: CPU $cpu_is, CUDA $cuda_is, not $4 and $5" && exit 1; }
    passed=$((passed + 1))
}

cat >src/plan/sample.h <<'SAMPLE'
/* a ** b */
#define ONE(x) ((x) + 1)
static const char *const text = "a /* b  c";
static const int list[] = {1, 2};
SAMPLE
cmake -S . -B build >/dev/null
expect "a comment in a kernel" src/cuda/study/kernel.cuh '1i // "another \\ comment'"'"'s text; [' same same
expect "a comment in the CPU's code" src/cpu/tile.c '1i /* another */' same same
expect "a comment of a public header" include/weft/order.h '1i /* another */' same same
expect "a public header that holds no order" include/weft/sim.h '1i extern int weft_another;' same same
expect "a changed comment" src/plan/sample.h 's/a \*\* b/"c" \/\/ d/' same same
expect "formatting" src/plan/sample.h 's/list\[\] = {1, 2}/list [ ]={\n1,2\n}/' same same
expect "a continued line" src/plan/sample.h 's/ONE(x) /ONE(x)  \\\n  /' same same
expect "a number" src/plan/sample.h 's/^1,2/1,3/' other other
expect "a literal" src/plan/sample.h 's/b  c/b c/' other other
expect "a literal that looks like a comment" src/plan/sample.h 's/b c/b d/' other other
expect "a macro without parameters" src/plan/sample.h 's/ONE(x)/ONE (x)/' other other
expect "code for GPUs" src/cuda/driver/driver.c '1i static const int another = 1;' same other
expect "code for CPUs" src/cpu/tile.c '1i static const int another = 1;' other same
expect "an attention for CPUs" src/cpu/attention/forward.c '1i static const int another = 1;' other same
expect "an instance of a CPU kernel" src/cpu/kernel/instances.def 's/COLUMNS=8 KEYS=1/COLUMNS=8 KEYS=2/' other same
expect "an order" include/weft/orders.def '1i WEFT_ANOTHER(1)' other other
echo "$passed passed, 0 failed"
