#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Debian packages: lintian finds neither errors nor warnings; in a new chroot of this release they install, work, and are removed
# without a trace. Exits 77, which stands for skipped, where there is no debootstrap, no root, or no archive.
#   deb.sh [FOLDER]    with packages that are there already
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
log=$work/log
fail() {
    tail -n 40 "$log"
    echo "failed: $1"
    exit 1
}
skip() {
    echo "skipped: $1"
    exit 77
}

[ "$(id -u)" = 0 ] || skip "a chroot needs root"
command -v debootstrap >/dev/null || skip "no debootstrap here"
for tool in dpkg-buildpackage dh_python3 lintian; do
    command -v $tool >/dev/null || skip "no $tool here: scripts/deps.sh deb brings it"
done
# The archive that this machine uses.
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
# shellcheck disable=SC2016 # apt's own variables
archive=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' 'Component: main' | sed -n "s/^$suite //p" | head -n 1)
root=$work/root
debootstrap --variant=minbase "$suite" "$root" "$archive" >"$log" 2>&1 || skip "debootstrap: $(tail -n 1 "$log")"

debs=${1:-$work/debs}
[ $# = 1 ] || scripts/deb.sh "$debs" 0 >"$log" 2>&1 || fail "scripts/deb.sh"
wc -c "$debs"/*.deb

in_root() {
    chroot "$root" env LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 || fail "$*"
}
ours() { # what is there of weft
    chroot "$root" find / -xdev -name '*weft*' ! -path '/proc/*' ! -path '/tmp/*' ! -path '/var/log/*' | sort
}
mkdir "$root/tmp/debs"
cp "$debs"/*.deb "$root/tmp/debs"
in_root sh -c 'apt-get update -qq && apt-get install -y --no-install-recommends /tmp/debs/*.deb python3-numpy'
version=$(sed -n 's/^#define WEFT_VERSION *"\(.*\)"/\1/p' include/weft/weft.h)
in_root weft --version
[ "$(cat "$log")" = "weft $version" ] || fail "weft --version"
in_root weft run attention --heads 2 --seq 128
in_root python3 -m weft orders
in_root python3 -c '
import numpy, weft
x = numpy.ones((1, 64, 2, 64), numpy.float32)
assert abs(weft.attention(x, x, x) - 1).max() < 1e-5'
# Compiled here, with the headers and the library that are there; run there.
gcc -std=c11 tests/install/three_lines.c -I "$root/usr/include" -L "$(dirname "$root"/usr/lib/*/libweft.a)" -lweft \
    -Wl,--unresolved-symbols=ignore-in-shared-libs -o "$root/tmp/three_lines" 2>"$log" || fail "a program in C"
in_root /tmp/three_lines
in_root sh -c 'test -f /usr/lib/*/libweft.a && test -f /usr/lib/*/pkgconfig/weft.pc && test -f /usr/lib/*/cmake/weft/weftConfig.cmake'
in_root apt-get purge -y weft libweft-dev "libweft${version%.*}" python3-weft
[ -z "$(ours)" ] || fail "left behind: $(ours)"
echo "passed"
