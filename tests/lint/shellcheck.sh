#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The shell scripts are clean.
set -eu
cd "$(dirname "$0")/../.."
exec shellcheck scripts/*.sh tests/*/*.sh .ci/run
