#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One of four ranks is killed or stopped: the three others tell that they are well afterwards.
#   mpi_failures.sh PROGRAM KILL|STOP EXCHANGE forward|backward|m|k MESSAGE
set -eu
said=$("$(dirname "$0")/mpirun.sh" --enable-recovery -n 4 "$@") || true # a rank has ended by a signal
echo "$said"
[ "$(echo "$said" | grep -c '^rank [0-3] is well$')" = 3 ]
