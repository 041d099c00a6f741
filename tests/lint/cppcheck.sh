#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cppcheck has nothing to say, but that a header for C passes structs by value, which it says where C++ includes one.
set -eu
cd "$(dirname "$0")/../.."
exec cppcheck --enable=warning,performance,portability --inline-suppr --error-exitcode=1 --quiet --std=c11 -j "$(nproc)" \
    --suppress=missingIncludeSystem '--suppress=passedByValue:include/*' -D_POSIX_C_SOURCE=200809L -I include -I src -I cli src mpi cli bench examples
