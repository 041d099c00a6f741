# SPDX-License-Identifier: Apache-2.0
"""What the examples share: columns of records, a table of results, and the arguments --small, --machine and -o FOLDER."""

import argparse
import os

import numpy as np

import weft


def columns(*parts):
    """Columns of a trace from parts (position, tile, step, tensor, block, bytes, op), each arrays or single values.

    Tiles come in the order of their positions, and each tile's records in the order of its steps.
    """
    flat = [[np.ravel(column) for column in np.broadcast_arrays(*part)] for part in parts]
    position, tile, step, tensor, block, size, op = (np.concatenate(column) for column in zip(*flat))
    order = np.lexsort((step, position))
    return dict(tile=tile[order], step=step[order], tensor=tensor[order], block=block[order], bytes=size[order], write=op[order])


def step_seconds(machine, flops):
    """Seconds of a worker for so many floating-point operations in bf16."""
    return flops * machine.workers / machine.matrix_bf16


def run(title, make, machine="h200"):
    """Simulates what make(machine, small) gives, {name: weft.Trace}, prints a table, and returns the simulations by name."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--small", action="store_true", help="a problem that takes no time")
    parser.add_argument("--machine", default=machine, help="one of 'weft machines', or a file (%(default)s)")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="also write the traces there")
    given = parser.parse_args()
    where = weft.Machine(given.machine)
    traces, found = make(where, given.small), {}
    print(f"{title}, on {where.title}\n{'':24} {'records':>10} {'hits':>7} {'DRAM GB':>9} {'at least':>9} {'ms':>8} {'TFLOP/s':>8}")
    for name, trace in traces.items():
        s = found[name] = trace.simulate(where)
        least = s.compulsory_misses * where.l2_sector / 1e9
        print(f"{name:24} {len(trace):10,} {s.total.hit_rate:7.1%} {s.total.dram_read_bytes / 1e9:9.3f} {least:9.3f}"
              f" {s.seconds * 1e3:8.3f} {s.tflops:8.1f}")  # fmt: skip
        if given.output:
            path = os.path.join(given.output, f"{name.replace(' ', '-').replace(',', '')}.trace")
            trace.save(path)
            print(f"    weft simulate trace {path} --machine {given.machine}")
    return found
