#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Warnings are errors in every build that the Makefile tests, and in no other: a newer compiler's warning stops nobody who only builds.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
configures=$(make -n BUILD="$work" quick nightly | grep -- '-DWEFT_TESTS=ON' | sort -u)
[ "$(echo "$configures" | wc -l)" = 7 ] || { echo "not the seven builds that are tested: $configures" && exit 1; }
if echo "$configures" | grep -v -- '-DWEFT_WERROR=ON'; then
    echo "that is configured without -DWEFT_WERROR=ON" && exit 1
fi
for werror in "" -DWEFT_WERROR=ON; do
    # shellcheck disable=SC2086 # nothing, or one option
    cmake -S . -B "$work/build$werror" -DWEFT_CUDA=OFF -DCMAKE_EXPORT_COMPILE_COMMANDS=ON $werror >/dev/null
    warned=$(grep -c '"command": .*-Wall -Wextra -Wconversion -Wpedantic' "$work/build$werror/compile_commands.json")
    failing=$(grep -c -- '-Werror' "$work/build$werror/compile_commands.json" || true)
    echo "cmake $werror: $warned files with warnings, $failing with -Werror"
    [ "$warned" -gt 0 ] && [ "$failing" = "$([ -z "$werror" ] && echo 0 || echo "$warned")" ]
done
