#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The main job, small: orders on a grid; what a schedule costs on a GB10 and an H100, simulated; published numbers beside it; then
# attention through two orders, checked against the reference. Leaves BUILD/demo.txt and two pages: BUILD/demo.html plays a forward
# and a sawtooth sweep, BUILD/report.html holds every claim.
#   scripts/demo.sh BUILD_DIRECTORY
set -eu
weft=$1/release/weft
show() {
    printf '\n$ weft %s\n' "$*"
    "$weft" "$@"
}
# It takes one core for the longest of these: it begins first, and is shown in its place.
"$weft" reproduce sawtooth --seeds 1 >"$1/demo.sawtooth" &
study=$!
{
    "$weft" --version
    show orders
    show order show gemm --m 1K --n 1K --order hilbert --show path
    show order show gemm --m 1K --n 1K --order group --group 3
    show order show attention --heads 8 --seq 1K --order head-first-swizzled --domains 4 --show domain
    show compare attention --machine gb10 --batch 8 --seq 128K --dtype fp16 --tile 64x64 --order head-first --dispatch static
    show plan gemm --machine h100 --m 8K --n 8K --k 8K --dtype bf16
    printf '\n$ weft reproduce sawtooth --seeds 1\n'
    wait $study
    cat "$1/demo.sawtooth"
    show run attention --heads 4 --kv-heads 2 --seq 512 --causal --order head-first --sweep forward --verbose
    show run attention --heads 4 --kv-heads 2 --seq 512 --causal --order longest-first --sweep sawtooth
} >"$1/demo.txt" || { cat "$1/demo.txt"; exit 1; }
cat "$1/demo.txt"
"$weft" view attention --machine gb10 --seq 128K --dtype fp16 --tile 128x64 --order head-first --dispatch static \
    --schedules forward,sawtooth -o "$1/demo.html" >/dev/null
"$weft" report -o "$1/report.html" >/dev/null
printf '\nAll of this is in %s/demo.txt; the command is %s.\n' "$1" "$weft"
printf 'Pages, for a browser: %s/demo.html plays two schedules and the cache, %s/report.html holds every claim.\n' "$1" "$1"
