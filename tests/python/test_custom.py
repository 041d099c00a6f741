# SPDX-License-Identifier: Apache-2.0
"""Orders of the caller's own: arrays and functions."""

import random

import numpy
import pytest
import weft

PRODUCT = weft.Gemm(64, 80, 32)  # 4 x 5 tiles
TILE = (16, 16, 16)
TILES = random.Random(1).sample(range(20), 20)


def numbers(plan):
    _, rows, cols = plan.grid
    return [(batch * rows + row) * cols + col for batch, row, col in plan.tiles()]


@pytest.mark.parametrize("order", [
    TILES, tuple(TILES), iter(TILES), numpy.array(TILES), numpy.array(TILES, numpy.uint8), [divmod(tile, 5) for tile in TILES],
    numpy.array([divmod(tile, 5) for tile in TILES]), [(0, *divmod(tile, 5)) for tile in TILES],
    lambda position, grid: TILES[position], lambda position, grid: divmod(TILES[position], grid[2]),
])  # fmt: skip
def test_arrays_and_functions(order):
    plan = weft.plan(PRODUCT, weft.Schedule(tile=TILE, order=order))
    assert numbers(plan) == TILES and plan.schedule.order == tuple(TILES)
    assert "custom" in str(plan.schedule) and "custom" in repr(plan)
    for again in (plan.schedule, plan.json["schedule"]):  # taken back
        assert weft.plan(PRODUCT, again).schedule == plan.schedule


def test_a_function_is_the_order_that_it_computes():
    def raster_m(position, grid):
        batch, rows, cols = grid
        assert (batch, rows, cols) == (1, 4, 5)
        return position % rows, position // rows

    mine, theirs = weft.Schedule(tile=TILE, order=raster_m), weft.Schedule(tile=TILE, order="raster-m")
    assert numbers(weft.plan(PRODUCT, mine)) == numbers(weft.plan(PRODUCT, theirs))
    assert weft.simulate(PRODUCT, mine, "h200").total == weft.simulate(PRODUCT, theirs, "h200").total


def test_results_are_right():
    rng = numpy.random.default_rng(2)
    a, b = rng.standard_normal((64, 32), numpy.float32), rng.standard_normal((32, 80), numpy.float32)
    assert numpy.allclose(weft.matmul(a, b, schedule=weft.Schedule(tile=TILE, order=TILES)), a @ b, atol=1e-4)
    q = rng.standard_normal((1, 80, 4, 16), numpy.float32)
    for order in (TILES, lambda position, grid: 19 - position):
        mine = weft.attention(q, q, q, causal=True, schedule=weft.Schedule(tile=(16, 16), order=order))
        assert numpy.allclose(mine, weft.attention(q, q, q, causal=True), atol=1e-5)


def test_the_array_is_copied():
    order = numpy.array(TILES)
    schedule = weft.Schedule(tile=TILE, order=order)
    order[:] = 0
    assert numbers(weft.plan(PRODUCT, schedule)) == TILES
    assert hash(schedule) == hash(weft.Schedule(tile=TILE, order=TILES))


@pytest.mark.parametrize("order, message", [
    (TILES[:-1], f"tile {TILES[-1]} .* is missing: the order has 19 of 1 x 4 x 5 = 20 tiles"),
    (TILES[:-1] + TILES[:1], f"tile {TILES[0]} .* is visited twice, at position 0 and position 19"),
    ([20], "tile 20 at position 0 is not in the grid of 1 x 4 x 5"),
    ([-1], "tile -1 at position 0 is not in the grid"),
    ([0, 2**32], "tile 4294967296 at position 1"),
    ([(0, 5)], r"tile \(0, 5\) at position 0 is not in the grid"),
    ([(1, 2, 3, 4)], r"tile \(1, 2, 3, 4\) at position 0 is not \(row, column\)"),
    ([0.5], "0.5 is no tile of an order"),
    (["a"], "'a' is no tile of an order"),
    (7, "order 7 is no name, array or function"),
    (lambda position, grid: None, "None is no tile of an order"),
    ("custom", "order custom needs order_table"),
    ([], "tile 0 .* is missing"),
])  # fmt: skip
def test_mistakes(order, message):
    with pytest.raises(weft.Invalid, match=message):
        weft.plan(PRODUCT, weft.Schedule(tile=TILE, order=order))


def test_batches_need_a_batch():
    with pytest.raises(weft.Invalid, match=r"tile \(0, 0\) at position 0 is not \(batch, row, column\)"):
        weft.plan(weft.Attention(seq=80, heads=4, head_dim=16, batch=2), weft.Schedule(tile=(16, 16), order=[(0, 0)]))


def test_it_is_not_tuned():
    with pytest.raises(weft.Invalid, match="an order of your own is for plans"):
        weft.tune(PRODUCT, weft.Schedule(tile=TILE, order=TILES))
    with pytest.raises(weft.Invalid, match="order custom is not tuned or stored"):
        weft.plan(PRODUCT, weft.Schedule(tile=TILE, order=TILES), mode="stored")
