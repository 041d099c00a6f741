#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every C and CUDA file is formatted as .clang-format says, and as version 14 reads it: others format some lines otherwise.
set -eu
cd "$(dirname "$0")/../.."
case $(clang-format --version) in
*version\ 14.*) ;;
*)
    echo "skipped: the sources are formatted by clang-format 14, and this is $(clang-format --version)"
    exit 77
    ;;
esac
scripts/sources.sh | xargs clang-format --dry-run -Werror
