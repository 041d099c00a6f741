#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# JSON is built and printed by src/base/json.c, which misses nothing when memory runs out; jansson's own calls do.
set -eu
cd "$(dirname "$0")/../.."
if grep -rnE '\bjson_(object_set|array_append|array_insert|object_update|array_extend|dump)[a-z_]*\(' src cli --include='*.[ch]' |
    grep -v '^src/base/json\.[ch]:'; then
    echo "use weft_json_set(), weft_json_append() and weft_json_text() of base/json.h"
    exit 1
fi
