#!/bin/sh
# Installs the Debian packages that a step needs, or says which command would.
#   scripts/deps.sh build|test|docs
set -eu

# What a step needs: a probe that succeeds when the thing is there, then the package that brings it.
probes() {
    case $1 in build | test | docs)
        cat <<'LIST'
command -v cmake|cmake
command -v pkg-config|pkg-config
pkg-config --exists inih|libinih-dev
pkg-config --exists jansson|libjansson-dev
pkg-config --exists sqlite3|libsqlite3-dev
LIST
        ;;
    esac
    case $1 in
    test)
        cat <<'LIST'
command -v g++|g++
command -v clang|clang
test -n "$(find /usr/lib/llvm-* -name 'libclang_rt.fuzzer*' -print -quit)"|libclang-rt-dev
command -v clang-format|clang-format
command -v cppcheck|cppcheck
command -v shellcheck|shellcheck
pkg-config --exists cmocka|libcmocka-dev
command -v python3|python3
/usr/bin/python3 -c 'import numpy'|python3-numpy
/usr/bin/python3 -c 'import ensurepip'|python3-venv
command -v chromium-headless-shell || command -v chromium || command -v google-chrome|chromium-headless-shell
test -n "$(find /usr/share/fonts /usr/local/share/fonts -name '*.[ot]tf' -print -quit)"|fonts-dejavu-core
LIST
        ;;
    docs) echo "command -v doxygen|doxygen" ;;
    build) ;;
    *)
        echo "usage: scripts/deps.sh build|test|docs" >&2
        exit 2
        ;;
    esac
}

missing() {
    probes "$1" | while IFS='|' read -r probe package; do
        eval "$probe" >/dev/null 2>&1 || printf ' %s' "$package"
    done
}

packages=$(missing "$1")
[ -n "$packages" ] || exit 0
install="apt-get install -y --no-install-recommends$packages"
if ! command -v apt-get >/dev/null 2>&1; then
    echo "weft needs, under the names Debian gives them:$packages" >&2
    exit 1
elif [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    echo "weft needs some packages first. Run: sudo sh -c 'apt-get update && $install'" >&2
    exit 1
fi
echo "weft: installing$packages"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq >/dev/null || true
# The small build of the browser is not in every release; the whole one is.
apt-cache show chromium-headless-shell >/dev/null 2>&1 || install=$(echo "$install" | sed 's/chromium-headless-shell/chromium/')
# shellcheck disable=SC2086 # a list of words on purpose
$as_root $install >/dev/null
packages=$(missing "$1")
if [ -n "$packages" ]; then
    echo "weft: still missing after the installation:$packages" >&2
    exit 1
fi
