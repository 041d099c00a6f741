#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws the README's picture.
#   scripts/picture.sh WEFT FILE.svg
set -eu
exec "$1" view attention --machine gb10 --seq 128K --dtype fp16 --tile 256x128 --order head-first --dispatch static \
    --schedules forward,sawtooth --svg -o "$2"
