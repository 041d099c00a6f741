#!/bin/sh
# Draws the pictures of docs/gallery.md: runs each command of that page, which ends in the picture's name.
#   scripts/gallery.sh WEFT PAGE FOLDER
set -eu
weft=$(realpath "$1") page=$(realpath "$2")
cd "$3"
# A command goes on where its line ends in a backslash.
sed -n '/^weft view/,/[^\\]$/{ /\\$/{ N; s/\\\n *// }; p }' "$page" | while read -r _ command; do
    # shellcheck disable=SC2086 # the words of a command
    "$weft" $command >/dev/null
done
