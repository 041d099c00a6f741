#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mpirun on one machine: also as root, without a network, and with more ranks than cores, each of one thread.
#   mpirun.sh ARGUMENTS...
set -eu
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
# Open MPI reads these, and other MPIs do not. Ranks talk through shared memory and copy twice, for which they need no right to read
# each other's memory; and a rank that waits gives its core away.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=^tcp,openib,ofi OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1
exec "${MPIRUN:-mpirun}" "$@"
