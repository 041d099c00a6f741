#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every C and CUDA file of the project, a line each.
cd "$(dirname "$0")/.." || exit 1
find include src mpi cli tests bench examples -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | LC_ALL=C sort
