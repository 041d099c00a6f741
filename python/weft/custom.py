# SPDX-License-Identifier: Apache-2.0
"""Orders of the caller's own: arrays of tiles, and functions."""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Iterable, Sequence, Tuple, Union

from .errors import Invalid

Grid = Tuple[int, int, int]  # batch, rows, columns
Tile = Union[int, Tuple[int, ...]]  # its number, (row, column) or (batch, row, column)
OrderLike = Union[str, Sequence[Any], Callable[[int, Grid], Any], None]


def is_custom(order: Any) -> bool:
    """Whether an order is the caller's own, not a name."""
    return order is not None and not isinstance(order, str)


def _tile(tile: Any) -> Tile:
    try:
        return tile.__index__() if hasattr(tile, "__index__") else tuple(number.__index__() for number in tile)
    except (TypeError, AttributeError):
        raise Invalid(f"{tile!r} is no tile of an order: its number, (row, column) or (batch, row, column) is") from None


def kept(order: Any) -> OrderLike:
    """An order as a schedule keeps it: a name, a function, or a tuple that does not change when the caller's array does."""
    if not is_custom(order) or callable(order):
        return order
    values: Any = order.tolist() if hasattr(order, "tolist") else order
    if not isinstance(values, Iterable):
        raise Invalid(f"order {order!r} is no name, array or function")
    return tuple(_tile(tile) for tile in values)


def _number(tile: Tile, position: int, grid: Grid) -> int:
    """The number of a tile, which has to be in the grid."""
    batch, rows, cols = grid
    if isinstance(tile, int):
        number, inside = tile, 0 <= tile < batch * rows * cols
    elif len(tile) == 3 or (len(tile) == 2 and batch == 1):
        b, row, col = (0, *tile)[-3:]
        number, inside = (b * rows + row) * cols + col, 0 <= b < batch and 0 <= row < rows and 0 <= col < cols
    else:
        raise Invalid(f"tile {tile} at position {position} is not {'(row, column)' if batch == 1 else '(batch, row, column)'}")
    if not inside:
        raise Invalid(f"tile {tile} at position {position} is not in the grid of {batch} x {rows} x {cols}")
    return number


def table(order: Any, grid: Grid) -> ctypes.Array:
    """The numbers of the tiles in the order of their visits, as the library takes them."""
    count = grid[0] * grid[1] * grid[2]
    tiles = (_tile(order(position, grid)) for position in range(count)) if callable(order) else order
    numbers = [_number(tile, position, grid) for position, tile in enumerate(tiles)]
    return (ctypes.c_uint32 * len(numbers))(*numbers)
