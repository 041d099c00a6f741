#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The bill of materials beside the tarball: it lists every file of it with the right digest, and what cmake/dependencies.cmake finds; it
# is made again with the same bits; and a validator of SPDX accepts it. Exits 77, which stands for skipped, where pip cannot bring that.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "failed: $1"
    exit 1
}

for folder in a b; do
    scripts/sbom.py "$(scripts/dist.sh "$work/$folder")" >"$work/$folder.log"
done
bill=$(tail -n 1 "$work/a.log")
cmp "$bill" "$work/b/${bill##*/}" || fail "it is not the same a second time"

# As sha256sum sees what tar unpacks.
tar -xzf "$(head -n 1 "$work/a.log")" -C "$work/a"
(cd "$work"/a/weft-*/ && find . -type f -exec sha256sum {} + | sort -k 2) >"$work/unpacked"
/usr/bin/python3 - "$bill" <<'LIST' | sort -k 2 >"$work/listed"
import json, sys
for file in json.load(open(sys.argv[1]))["files"]:
    digest = {c["algorithm"]: c["checksumValue"] for c in file["checksums"]}["SHA256"]
    print(f"{digest}  {file['fileName']}")
LIST
cmp "$work/unpacked" "$work/listed" || fail "it does not list what is in the tarball"
[ "$(wc -l <"$work/listed")" -gt 100 ]

for name in $(sed -n 's/^ *pkg_check_modules([A-Z]* \([a-z0-9]*\))$/\1/p' cmake/dependencies.cmake) OpenMP; do
    grep -q "\"name\": \"$name\"" "$bill" || fail "it does not name $name"
done

if ! { /usr/bin/python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet --disable-pip-version-check spdx-tools; } >"$work/log" 2>&1; then
    echo "skipped: pip cannot bring spdx-tools: $(tail -n 1 "$work/log")"
    exit 77
fi
"$work/venv/bin/pyspdxtools" --infile "$bill" || fail "spdx-tools does not accept it"
echo "$(wc -l <"$work/listed") files"
