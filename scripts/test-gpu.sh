#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the tests that need a GPU; says so in one line where there is none.
#   scripts/test-gpu.sh BUILD_DIRECTORY
set -eu
if [ ! -e /dev/nvidia0 ] && ! nvidia-smi >/dev/null 2>&1; then
    echo "skipped: no GPU"
    exit 0
fi
cd "$1"
exec ctest --output-on-failure --no-tests=error -L gpu
