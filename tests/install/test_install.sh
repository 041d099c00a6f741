#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The installed tree serves C and C++ programs through pkg-config and through find_package, shared and static.
#   test_install.sh BUILD_DIRECTORY
set -eu
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >/dev/null
export PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"
libraries="$work/prefix/lib"
passed=0

expect() { # expect WHAT COMMAND...
    what=$1
    shift
    output=$("$@") || { echo "$what: failed"; exit 1; }
    [ "$output" = "weft 0.3.0 hilbert" ] || { echo "$what: printed '$output'"; exit 1; }
    passed=$((passed + 1))
}

# shellcheck disable=SC2046 # lists of words on purpose
{
    gcc -std=c11 "$here/three_lines.c" -o "$work/c_shared" $(pkg-config --cflags --libs weft)
    g++ -std=c++17 "$here/three_lines.cpp" -o "$work/cpp_shared" $(pkg-config --cflags --libs weft)
    gcc -std=c11 "$here/three_lines.c" -o "$work/c_static" $(pkg-config --cflags weft) \
        "$libraries/libweft.a" $(pkg-config --static --libs-only-l weft | sed 's/-lweft//')
}
expect "C by pkg-config" env LD_LIBRARY_PATH="$libraries" "$work/c_shared"
expect "C++ by pkg-config" env LD_LIBRARY_PATH="$libraries" "$work/cpp_shared"
expect "C, static" "$work/c_static"

# What `make install` advises is enough.
rpath=$(scripts/install-hint.sh "$work/prefix" | sed -n 's/^ *the linker *\([^ ]*\).*/\1/p')
# shellcheck disable=SC2046
gcc -std=c11 "$here/three_lines.c" -o "$work/c_rpath" $(pkg-config --cflags --libs weft) "$rpath"
expect "C, by the advised rpath" "$work/c_rpath"

cmake -S "$here/find_package" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/cmake" >/dev/null
for program in c_shared cpp_shared c_static cpp_static; do
    expect "find_package $program" "$work/cmake/$program"
done

"$work/prefix/bin/weft" --version | grep -qx 'weft 0.3.0'
[ -f "$work/prefix/share/weft/machines/gb10.ini" ]
[ -f "$work/prefix/share/weft/profiles/generic.ini" ]
if [ -e "$build/libweft_mpi.so" ]; then
    [ -f "$libraries/libweft_mpi.so" ]
fi
[ -f "$work/prefix/share/man/man1/weft-run.1" ]
[ -f "$work/prefix/share/zsh/site-functions/_weft" ]
[ -f "$work/prefix/share/fish/vendor_completions.d/weft.fish" ]
bash -n "$work/prefix/share/bash-completion/completions/weft"
completions=$(bash -c ". '$work/prefix/share/bash-completion/completions/weft'
    COMP_WORDS=(weft run gemm --order hil) COMP_CWORD=4; _weft; echo \"\${COMPREPLY[*]}\"")
[ "$completions" = "hilbert" ] || { echo "completion gave '$completions'"; exit 1; }
echo "$((passed + 1)) passed, 0 failed"
