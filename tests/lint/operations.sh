#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Operations are rows of a table: nothing asks which one it has, everything calls through the row.
set -eu
cd "$(dirname "$0")/../.."
asks='(subject|operation) *(==|!=)|([=!]= *|case +)WEFT_(ATTENTION|ATTENTION_BACKWARD|GEMM|COMBINE|GROUPED_GEMM)\b'
for line in 'if (p->operation == number) {' 'if (p->operation != WEFT_GEMM) {' 'case WEFT_COMBINE:'; do
    echo "$line" | grep -qE "$asks" || { echo "this test does not see: $line" && exit 1; }
done
if found=$(grep -rnE "$asks" src cli mpi); then
    printf 'lines that branch on the operation:\n%s\n' "$found"
    exit 1
fi
