#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the unit tests of the other architecture under qemu-user; then the CPU kernels of both on processors that qemu has and
# this machine may not have. Says at the end which kernels nobody has run.
#   scripts/test-cross.sh NATIVE_BUILD CROSS_BUILD
set -eu
native=$1
cross=$2
ran=$(mktemp)
trap 'rm -f "$ran" "$ran.log"' EXIT

# A processor of qemu runs the kernels' tests of a build.
kernels() {
    build=$1
    shift
    "$@" "$build/tests/test_kernels" --list >>"$ran"
    for test in test_kernels test_cpu; do
        echo "$test: $*"
        WEFT_TEST_ROUNDS=10 "$@" "$build/tests/$test" >"$ran.log" 2>&1 || { cat "$ran.log" && exit 1; }
    done
}

WEFT_TEST_ROUNDS=25 ctest --test-dir "$cross" --output-on-failure --no-tests=error -j "$(nproc)" -L unit
if [ "$(uname -m)" = x86_64 ]; then
    x86=$native arm=$cross
else
    x86=$cross arm=$native
fi
kernels "$x86" qemu-x86_64 -cpu max
for bits in 256 512; do # of SVE
    kernels "$arm" qemu-aarch64 -cpu "max,sve-default-vector-length=$((bits / 8))"
done
"$native/tests/test_kernels" --list >>"$ran"
echo "kernels that were run:     $(sed -n 's/ run$//p' "$ran" | grep -v ' not$' | sort -u | paste -sd ' ')"
not=$(sed -n 's/ not run$//p' "$ran" | sort -u | while read -r kernel; do grep -qx "$kernel run" "$ran" || printf ' %s' "$kernel"; done)
echo "kernels that were NOT run, as neither qemu nor this machine has what they need:${not:- none}"
