#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws the plot of docs/choosing-a-machine.md.
#   scripts/machines.sh WEFT FILE.svg
set -eu
exec "$1" simulate attention --machine all --seq 32K:256K:32K --head-dim 128 --dtype bf16 --order head-first --sweep forward --tile 128x128 --plot dram \
    --svg -o "$2" >/dev/null
