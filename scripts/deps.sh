#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that a step needs, or says which command would.
#   scripts/deps.sh build|test|cross|docs|wheel|deb
set -eu

# The other architecture: as GNU names it, as Debian names its compiler, and as Debian names it.
case $(uname -m) in
x86_64) gnu=aarch64 compiler=aarch64 debian=arm64 ;;
*) gnu=x86_64 compiler=x86-64 debian=amd64 ;;
esac

# What a step needs: a package, then a probe that succeeds when what it brings is there.
probes() {
    case $1 in build | test | docs | wheel | deb)
        cat <<'LIST'
cmake command -v cmake
pkg-config command -v pkg-config
libjansson-dev pkg-config --exists jansson
libsqlite3-dev pkg-config --exists sqlite3
LIST
        ;;
    esac
    case $1 in
    test)
        cat <<'LIST'
g++ command -v g++
clang command -v clang
libclang-rt-dev test -n "$(find /usr/lib/llvm-* -name 'libclang_rt.fuzzer*' -print -quit)"
clang-format command -v clang-format
cppcheck command -v cppcheck
shellcheck command -v shellcheck
abigail-tools command -v abidw
libcmocka-dev pkg-config --exists cmocka
libopenmpi-dev pkg-config --exists ompi-c
openmpi-bin command -v mpirun
python3 command -v python3
python3-numpy /usr/bin/python3 -c 'import numpy'
python3-venv /usr/bin/python3 -c 'import ensurepip'
fonts-dejavu-core test -n "$(find /usr/share/fonts /usr/local/share/fonts -name '*.[ot]tf' -print -quit)"
LIST
        ;;
    cross)
        cat <<LIST
gcc-$compiler-linux-gnu command -v $gnu-linux-gnu-gcc
g++-$compiler-linux-gnu command -v $gnu-linux-gnu-g++
qemu-user command -v qemu-$gnu
libjansson-dev:$debian test -e /usr/lib/$gnu-linux-gnu/pkgconfig/jansson.pc
libsqlite3-dev:$debian test -e /usr/lib/$gnu-linux-gnu/pkgconfig/sqlite3.pc
libcmocka-dev:$debian test -e /usr/lib/$gnu-linux-gnu/pkgconfig/cmocka.pc
libgomp1:$debian test -e /usr/lib/$gnu-linux-gnu/libgomp.so.1
LIST
        ;;
    docs) echo "doxygen command -v doxygen" ;;
    wheel) echo "python3-venv /usr/bin/python3 -c 'import ensurepip'" ;;
    deb)
        cat <<'LIST'
dpkg-dev command -v dpkg-buildpackage
debhelper command -v dh
dh-python command -v dh_python3
lintian command -v lintian
debootstrap command -v debootstrap
LIST
        ;;
    build) ;;
    *)
        echo "usage: scripts/deps.sh build|test|cross|docs|wheel|deb" >&2
        exit 2
        ;;
    esac
}

missing() {
    probes "$1" | while read -r package probe; do
        eval "$probe" >/dev/null 2>&1 || printf ' %s' "$package"
    done
}

# What tests of pages are skipped without: a browser, of which Ubuntu has a snap alone. Prints the package that there is.
browser() {
    if [ "$1" = test ] && ! command -v chromium-headless-shell && ! command -v chromium && ! command -v google-chrome; then
        for package in chromium-headless-shell chromium; do # the first is smaller, and not in every release
            apt-cache show $package && break
        done
    fi | sed -n 's/^Package: / /p;T;q'
}

packages=$(missing "$1")
if ! command -v apt-get >/dev/null 2>&1; then
    [ -n "$packages" ] || exit 0
    echo "weft needs, under the names Debian gives them:$packages" >&2
    exit 1
fi
[ -n "$packages" ] || [ -n "$(browser "$1" 2>/dev/null)" ] || exit 0
install="apt-get install -y --no-install-recommends"
foreign=
case $packages in *:*) foreign="dpkg --add-architecture $debian" ;; esac
if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    [ -n "$packages" ] || exit 0
    echo "weft needs some packages first. Run: sudo sh -c '${foreign:+$foreign && }apt-get update && $install$packages$(browser "$1" 2>/dev/null)'" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # lists of words on purpose, here and below
[ -z "$foreign" ] || $as_root $foreign
$as_root apt-get update -qq >/dev/null || true
wanted=$packages$(browser "$1" 2>/dev/null)
echo "weft: installing$wanted"
# shellcheck disable=SC2086
$as_root $install$wanted >/dev/null || [ -z "$packages" ]
packages=$(missing "$1")
if [ -n "$packages" ]; then
    echo "weft: still missing after the installation:$packages" >&2
    exit 1
fi
