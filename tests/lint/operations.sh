#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Operations are rows of a table: at most one file asks which one it has. Everything else calls through the row.
set -eu
cd "$(dirname "$0")/../.."
files=$(grep -rlE '(subject|operation) *(==|!=)' src cli || true)
if [ "$(echo "$files" | wc -w)" -gt 1 ]; then
    printf 'files that branch on the operation:\n%s\n' "$files"
    exit 1
fi
