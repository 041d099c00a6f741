#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes the Debian packages of this tree to FOLDER. debian/ holds what they are made of; their version is the project's.
#   scripts/deb.sh FOLDER [CUDA]
# CUDA: 1 or ON with CUDA kernels, 0 or OFF without (the default).
set -eu
case ${2:-0} in 1 | ON | on) cuda=ON ;; *) cuda=OFF ;; esac
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

tar -xzf "$(scripts/dist.sh "$work")" -C "$work"
cd "$work"/weft-*/
SOURCE_DATE_EPOCH=$(stat -c %Y LICENSE)
export SOURCE_DATE_EPOCH
version=${PWD##*/weft-}
if ! grep -qx "Package: libweft${version%.*}" debian/control; then
    echo "weft: debian/ names another library than libweft${version%.*}: rename it there, with the file libweft*.install" >&2
    exit 1
fi
cat >debian/changelog <<CHANGELOG
weft ($version) unstable; urgency=medium

  * Version $version: see CHANGELOG.md.

 -- $(sed -n 's/^Maintainer: //p' debian/control)  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
CHANGELOG
WEFT_CUDA=$cuda dpkg-buildpackage --build=binary --no-sign --root-command= >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cd "$work"
cp ./*.deb "$folder"
ls -l "$folder"/*.deb
lintian --allow-root --fail-on error,warning --tag-display-limit 0 ./*.changes
