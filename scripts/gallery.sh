#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws the pictures of docs/gallery.md by running each command of that page in their folder.
#   scripts/gallery.sh WEFT PAGE FOLDER
set -eu
weft=$(realpath "$1")
page=$(realpath "$2")
cd "$3"
grep '^weft ' "$page" | while read -r _ command; do
    # shellcheck disable=SC2086 # the words of a command
    "$weft" $command >/dev/null </dev/null
done
