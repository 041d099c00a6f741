#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The wheel for the other of x86-64 and aarch64: it is made here, and its command runs under qemu with the libraries that it brings.
# Exits 77, which stands for skipped, without the other architecture's compiler or qemu.
#   wheel_cross.sh [WHEEL]    one that is there already
set -eu
cd "$(dirname "$0")/../.."
case $(uname -m) in x86_64) other=aarch64 ;; *) other=x86_64 ;; esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
fail() {
    tail -n 40 "$log"
    echo "failed: $1"
    exit 1
}

for tool in $other-linux-gnu-gcc qemu-$other; do
    command -v "$tool" >/dev/null || { echo "skipped: no $tool here: scripts/deps.sh cross brings it" && exit 77; }
done
if [ $# = 1 ]; then
    wheel=$(realpath "$1")
else
    scripts/wheel.sh "$work/wheels" 0 1 >"$log" 2>&1 || fail "scripts/wheel.sh"
    wheel=$(echo "$work"/wheels/weft-*.whl)
fi
case $wheel in *manylinux*_$other.whl) ;; *) fail "it is no manylinux wheel for $other: $wheel" ;; esac
echo "$(wc -c <"$wheel") bytes: ${wheel##*/}"

/usr/bin/python3 -m zipfile -e "$wheel" "$work/wheel"
chmod +x "$work/wheel/weft/bin/weft"
in_qemu() { qemu-$other -cpu max "$work/wheel/weft/bin/weft" "$@" >"$log" 2>&1 || fail "weft $*"; }
version=$(sed -n 's/^#define WEFT_VERSION *"\(.*\)"/\1/p' include/weft/weft.h)
in_qemu --version
[ "$(cat "$log")" = "weft $version" ] || fail "weft --version"
in_qemu run attention --heads 2 --seq 128 --dtype bf16
grep -q passed "$log" || fail "weft run"
in_qemu plan attention --machine h200 --heads 4 --seq 1K --head-dim 64 --dtype bf16
in_qemu tune --list # SQLite
ls "$work/wheel/weft.libs" >"$log"
for library in jansson sqlite3 gomp; do
    grep -q "$library" "$log" || fail "the wheel lacks $library"
done
echo "passed"
