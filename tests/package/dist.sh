#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The source tarball builds without git: unpacked into an empty folder it configures, builds, and its command and a unit test run. It
# makes the same tarball again.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    [ ! -e "$work/log" ] || tail -n 30 "$work/log"
    echo "failed: $1"
    exit 1
}

tarball=$(scripts/dist.sh "$work")
mkdir "$work/empty"
tar -xzf "$tarball" -C "$work/empty"
version=$(sed -n 's/^#define WEFT_VERSION *"\(.*\)"/\1/p' include/weft/weft.h)
cd "$work/empty/weft-$version"
cmp "$tarball" "$(scripts/dist.sh "$work/again")" || fail "it makes another tarball"

# A git that is called is found out.
mkdir "$work/traps"
printf '#!/bin/sh\necho "git $*" >>%s\nexit 1\n' "$work/called" >"$work/traps/git"
chmod +x "$work/traps/git"
PATH=$work/traps:$PATH
cmake -S . -B build/quick -DWEFT_TESTS=ON -DWEFT_CUDA=OFF >"$work/log" 2>&1 || fail "cmake"
cmake --build build/quick -j 2 --target weft_command test_machine >"$work/log" 2>&1 || fail "the build"
[ "$(build/quick/weft --version)" = "weft $version" ] || fail "weft --version"
ctest --test-dir build/quick -R '^test_machine$' --no-tests=error >"$work/log" 2>&1 || fail "a unit test"
[ ! -e "$work/called" ] || fail "it calls $(cat "$work/called")"
echo "passed"
