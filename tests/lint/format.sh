#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every C and CUDA file is formatted as .clang-format says.
set -eu
cd "$(dirname "$0")/../.."
scripts/sources.sh | xargs clang-format --dry-run -Werror
