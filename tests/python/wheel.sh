#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `pip install .` in a new virtual environment: the package, the library and the command are there and run; nothing outside of the
# environment is installed, and no CUDA kernel compiled where there is no GPU. Packages that are missing are named.
# Exits 77, which stands for skipped, where pip cannot bring the build backend.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
export PIP_DISABLE_PIP_VERSION_CHECK=1

if ! { /usr/bin/python3 -m venv "$work/venv" && "$work/venv/bin/pip" download --quiet --dest "$work" scikit-build-core; } >"$log" 2>&1; then
    echo "skipped: pip cannot bring scikit-build-core: $(tail -n 1 "$log")"
    exit 77
fi

fail() {
    tail -n 40 "$log"
    echo "failed: $1"
    exit 1
}

# Whoever calls one of these is found out.
mkdir "$work/traps"
for name in apt-get apt dpkg su sudo; do
    printf '#!/bin/sh\necho "%s $*" >>"%s"\nexit 1\n' $name "$work/called" >"$work/traps/$name"
done
[ -e /dev/nvidia0 ] || sed 's/apt-get/nvcc/' "$work/traps/apt-get" >"$work/traps/nvcc"
chmod +x "$work"/traps/*
PATH=$work/traps:$PATH

if PKG_CONFIG_LIBDIR=$work PKG_CONFIG_PATH='' "$work/venv/bin/pip" install . >"$log" 2>&1; then
    fail "it is built without jansson"
fi
# CMake wraps lines.
tr -s ' \n' ' ' <"$log" | grep -q 'sudo apt-get install libjansson-dev' || fail "what is missing is not said"

"$work/venv/bin/pip" install . >"$log" 2>&1 || fail "pip install ."
[ ! -e "$work/called" ] || fail "it calls $(cat "$work/called")"
version=$(sed -n 's/^#define WEFT_VERSION *"\(.*\)"/\1/p' include/weft/weft.h)
cd "$work"
export PATH="$work/venv/bin:$PATH"
[ "$(weft --version)" = "weft $version" ] || fail "the command weft"
python -m weft orders | grep -q hilbert || fail "python -m weft"
python -c "import sys, weft; sys.exit(not weft.__version__ == '$version' == __import__('importlib.metadata').metadata.version('weft'))" ||
    fail "import weft"
installed=$(python -c "import os, weft; print(os.path.dirname(weft.__file__))")
cd - >/dev/null
for file in python/weft/*.py python/weft/py.typed; do
    cmp -s "$file" "$installed/${file##*/}" || fail "$file is not in the wheel"
done
others=$(find "$installed" ! -name '*.py' ! -name '*.pyc' ! -name py.typed -type f | sed "s|$installed/||" | LC_ALL=C sort | tr '\n' ' ')
case $others in
"bin/weft libweft.so " | "bin/weft libweft.so libweft_mpi.so ") ;; # the last where there is an MPI
*) fail "the wheel holds $others" ;;
esac
echo "passed"
