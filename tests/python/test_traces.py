# SPDX-License-Identifier: Apache-2.0
"""Traces from arrays: they say what a file says, and what is wrong with them."""

import numpy as np
import pytest
import weft

ROWS, COLS, STEPS = 6, 5, 4


def columns():
    """A small GEMM: every tile reads a row of blocks of A and one of B, and writes a block of C."""
    tile, step = np.divmod(np.arange(ROWS * COLS * STEPS), STEPS)
    row, col = np.divmod(tile, COLS)
    reads = [("A", row * STEPS + step, 4096), ("B", col * STEPS + step, 2048)]
    parts = [(tile, step, np.full(tile.size, name), block, np.full(tile.size, size), np.full(tile.size, "read")) for name, block, size in reads]
    tiles = np.arange(ROWS * COLS)
    parts.append((tiles, np.full(tiles.size, STEPS - 1), np.full(tiles.size, "C"), tiles, np.full(tiles.size, 8192), np.full(tiles.size, "write")))
    tile, step, tensor, block, size, write = (np.concatenate(column) for column in zip(*parts))
    return dict(tile=tile, step=step, tensor=tensor, block=block, bytes=size, write=write)


def test_counts():
    found = weft.simulate_trace(**columns(), time=1e-6, machine="gb10", workers=1)
    sectors = ROWS * COLS * (STEPS * (4096 + 2048) + 8192) // 32
    assert (found.total.sectors, found.piece_visits, found.schedule) == (sectors, ROWS * COLS * STEPS * 2, None)
    assert found.total.dram_write_bytes == ROWS * COLS * 8192
    assert found.seconds >= ROWS * COLS * STEPS * 1e-6


@pytest.mark.parametrize("machine", ["h200", "mi300x"])
def test_a_file_says_the_same(machine, tmp_path):
    trace = weft.Trace(**columns(), time=1e-6, grid=(ROWS, COLS), workers=7, dispatch="static", flops=1e9)
    trace.save(tmp_path / "t.bin")
    lines = ["#weft trace workers=7 dispatch=static flops=1e9 step-seconds=1e-6", "tile,step,tensor,block,bytes,op"]
    lines += [",".join(map(str, record)) for record in zip(*columns().values())]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    want = trace.simulate(machine)
    for name in ("t.bin", "t.csv"):
        again = weft.Trace.read(tmp_path / name)
        found = again.simulate(machine)
        assert len(again) == len(trace) == ROWS * COLS * (2 * STEPS + 1)
        assert found.domains == want.domains and found.seconds == want.seconds and found.tflops == want.tflops > 0
        assert again.curve(machine, count=3) == trace.curve(machine, count=3)


@pytest.mark.parametrize("wrong, text", [
    (dict(bytes=[1, 2, 3]), "equally long"),
    (dict(block=0.5), "block has float64"),
    (dict(block=-1), "record 0: A has no block -1"),
    (dict(bytes=[1, 2]), "record 1: block 0 of A has 2 bytes, but had 1 before"),
    (dict(write="erase"), "'erase' is not read, write or add"),
    (dict(tensor=[0, 1], names=["A"]), "record 1: tensor 1: there are 1"),
    (dict(tensor=None), "a trace has tensor, block and bytes"),
    (dict(tile=None), "a column worker or a column tile"),
    (dict(worker=0, dispatch="static"), "nothing to dispatch"),
    (dict(dispatch="random"), "there is no dispatch 'random'"),
    (dict(time=float("nan")), "record 0: time nan"),
    (dict(grid=(1, 1), tile=[0, 1]), "tile 1 is not in a grid of 1 x 1"),
])  # fmt: skip
def test_what_is_wrong(wrong, text):
    right = dict(tile=0, tensor=np.array(["A", "A"]), block=0, bytes=1)
    weft.Trace(**right)
    with pytest.raises(weft.Invalid, match=text):
        weft.Trace(**{**right, **wrong})
