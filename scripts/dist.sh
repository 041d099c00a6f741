#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes FOLDER/weft-VERSION.tar.gz, the files that git knows as they are now, and prints its path. It builds without git, and the
# same tree gives the same bits: names are sorted, every file has the time of the last commit.
#   scripts/dist.sh FOLDER
set -eu
export LC_ALL=C
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
name=weft-$(sed -n 's/^#define WEFT_VERSION *"\(.*\)"/\1/p' include/weft/weft.h)
files() {
    if [ -e .git ]; then
        git ls-files -z -- . ':!.ci' ':!.github'
    else
        find . \( -path ./build -o -name __pycache__ \) -prune -o -type f -printf '%P\0'
    fi
}
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    if [ -e .git ]; then SOURCE_DATE_EPOCH=$(git log -1 --format=%ct); else SOURCE_DATE_EPOCH=$(stat -c %Y LICENSE); fi
fi
files | sort -z | tar -c --null --no-recursion -T - --transform "s|^|$name/|" --format=gnu --mtime="@$SOURCE_DATE_EPOCH" \
    --owner=0 --group=0 --numeric-owner --mode=u+rw,go=u,go-w | gzip -9n >"$folder/$name.tar.gz.part"
mv "$folder/$name.tar.gz.part" "$folder/$name.tar.gz"
echo "$folder/$name.tar.gz"
