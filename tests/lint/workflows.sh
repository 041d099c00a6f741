#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The workflows of .github/ are right by their schema, tidy, and safe by zizmor's rules: actions are pinned to a commit, tokens may only
# read. They run what this tree has: .ci/run and targets of the Makefile.
#   tests/lint/workflows.sh FOLDER
# FOLDER holds the linters between runs. Exits 77, which stands for skipped, where pip cannot bring them, or in a tarball, which has no
# workflows.
set -eu
cd "$(dirname "$0")/../.."
folder=$1
if [ ! -e .github/workflows ]; then
    echo "skipped: a tarball has no workflows"
    exit 77
fi

# Every target that a step or a matrix names; a variable as a target is one of the matrix.
targets=$(sed -n 's/^ *- run: make \([a-z][a-z-]*\).*/\1/p; s/^ *target: \[\(.*\)\]$/\1/p' .github/workflows/*.yml | tr -d '",' | sed 's/[A-Z]*=[^ ]*//g')
[ "$(echo "$targets" | wc -w)" -ge 8 ] || { echo "no targets found: $targets" && exit 1; }
for target in $targets; do
    grep -qE "^\.PHONY:.* $target( |\$)|^$target:" Makefile || { echo "a workflow runs 'make $target', which the Makefile has not" && exit 1; }
done
grep -q '^ *- run: \.ci/run$' .github/workflows/test.yml && [ -x .ci/run ]

if [ ! -e "$folder/ready" ]; then
    # Of these versions: a newer one may have rules that nobody has looked at.
    linters='yamllint==1.38.0 check-jsonschema==0.39.0 zizmor==1.32.0'
    # shellcheck disable=SC2086 # a list of words on purpose
    if ! { /usr/bin/python3 -m venv "$folder" && "$folder/bin/pip" install --quiet --disable-pip-version-check $linters; } >"$folder.log" 2>&1; then
        echo "skipped: pip cannot bring $linters: $(tail -n 1 "$folder.log")"
        exit 77
    fi
    touch "$folder/ready"
fi
"$folder/bin/yamllint" --strict .github --config-data \
    '{extends: default, rules: {line-length: {max: 140}, document-start: disable, truthy: {check-keys: false}, comments: {min-spaces-from-content: 1}}}'
"$folder/bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml
"$folder/bin/zizmor" --offline --quiet --no-progress --persona pedantic .github/workflows
