#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One parallel region, behind the guard against forks: OpenMP's threads do not survive a fork, and a child waits for them
# forever. Everything else goes through weft_cpu_team() and weft_cpu_for().
set -eu
cd "$(dirname "$0")/../.."
home=src/cpu/thread/team.c
raw='#[[:space:]]*pragma[[:space:]]+omp[[:space:]]+(parallel|teams|target|task)|_Pragma[[:space:]]*\([[:space:]]*"omp[[:space:]]+(parallel|teams|target|task)'
if found=$(grep -rnE "$raw" src cli include | grep -v "^$home:"); then
    printf 'OpenMP regions outside of %s:\n%s\n' "$home" "$found"
    exit 1
fi
[ "$(grep -cE "$raw" "$home")" -eq 1 ] # and the one is there
