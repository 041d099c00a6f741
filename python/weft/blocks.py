# SPDX-License-Identifier: Apache-2.0
"""Block masks and tree masks, as the library takes them: lists of blocks and words of bits. NumPy is imported when one is made."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, Tuple, Union

from .errors import Invalid, Unsupported
from .schedules import whole

ARRAYS = ("block_starts", "block_list", "block_bits_at", "block_bits")  # of int32; the words of bits, too
_PAIRS = 1 << 24  # of query and key whose bits are made at a time


def _place(array: Any, q: Any) -> Any:
    """A NumPy array as one such as q, on its device."""
    framework = type(q).__module__.partition(".")[0]
    if framework == "numpy":
        return array
    if framework == "torch":
        import torch

        return torch.from_numpy(array.copy()).to(q.device)
    raise Unsupported(f"block_mask and tree are for arrays of NumPy and torch, not of {framework}")


class BlockMask:
    """Which keys the queries of an attention see, block by block: what is in no block that a query sees is never loaded.

    mask        bools that broadcast to (batch, heads, seq, kv_seq): True where a query sees a key. Batches, or heads, share a mask
                whose dimension has length 1.
    block_size  queries and keys of a block, one number or two: multiples of 16 and of 32

    >>> mask = weft.BlockMask(np.tri(512, dtype=bool), 128)
    >>> mask
    BlockMask(1x1x512x512, 10 blocks of 128x128)
    >>> q = rng.standard_normal((1, 512, 4, 64), dtype=np.float32)
    >>> np.allclose(weft.attention(q, q, q, block_mask=mask), weft.attention(q, q, q, causal=True), atol=1e-5)
    True
    """

    def __init__(self, mask: Any, block_size: Union[int, Tuple[int, int]] = 128):
        import numpy

        dense = numpy.asarray(mask.cpu() if hasattr(mask, "cpu") else mask)
        if dense.dtype != bool or not 2 <= dense.ndim <= 4 or 0 in dense.shape:
            raise Invalid(f"a mask of dtype {dense.dtype} and shape {dense.shape} is not (batch, heads, seq, kv_seq) of bools")
        dense = dense.reshape((1,) * (4 - dense.ndim) + dense.shape)
        rows, columns = _sides(block_size)
        batch, heads, seq, kv_seq = dense.shape
        down, along = -(-seq // rows), -(-kv_seq // columns)
        padding = ((0, 0), (0, 0), (0, down * rows - seq), (0, along * columns - kv_seq))

        def blocks(edge: bool) -> Any:  # (batch, heads, down, along, rows, columns)
            padded = numpy.pad(dense, padding, constant_values=edge)
            return padded.reshape(batch, heads, down, rows, along, columns).swapaxes(3, 4)

        kinds = blocks(False).any((4, 5)).astype("int8") + blocks(True).all((4, 5))
        self._fill(dense.shape, (rows, columns), kinds, lambda at: blocks(False)[at])

    def _fill(self, shape: Tuple[int, ...], block_size: Tuple[int, int], kinds: Any, bits_of: Callable[[Any], Any]) -> None:
        """kinds: (batch, heads, blocks of queries, blocks of keys), 0 where no pair is seen, 1 where some are, 2 where all are; bits_of:
        the pairs of blocks, (count, rows, columns) of bools, from the indices of their kinds."""
        import numpy

        rows, columns = block_size
        lists = (kinds > 0).sum(3).reshape(-1)
        entries = kinds.reshape(-1)[kinds.reshape(-1) > 0]
        partial, words = numpy.nonzero(kinds == 1), rows * columns // 32
        step = max(_PAIRS // (rows * columns), 1)
        packed = [numpy.zeros((0, words), "<u4")]
        for first in range(0, len(partial[0]), step):
            bits = bits_of(tuple(index[first : first + step] for index in partial))
            packed.append(numpy.packbits(bits, axis=-1, bitorder="little").reshape(-1, 4 * words).view("<u4"))
        # Blocks that are alike, as on the diagonal of a causal mask, share their bits.
        whole_bits, number = numpy.unique(numpy.concatenate(packed).view(f"V{4 * words}").reshape(-1), return_inverse=True)
        bits_at = numpy.full(len(entries), -1, "int32")
        bits_at[entries == 1] = number.reshape(-1)
        self.shape, self.block_size = tuple(map(int, shape)), block_size
        self._arrays = {
            "block_starts": numpy.concatenate(([0], numpy.cumsum(lists))).astype("int32"),
            "block_list": numpy.nonzero(kinds)[3].astype("int32"),
            "block_bits_at": bits_at,
            "block_bits": numpy.ascontiguousarray(whole_bits).view("int32").reshape(-1),
        }
        self._placed: Dict[Tuple[str, str], Dict[str, Any]] = {}

    def arrays(self, q: Any) -> Dict[str, Any]:
        """The arrays of the mask beside q, by their names."""
        where = type(q).__module__, str(getattr(q, "device", "cpu"))
        if where not in self._placed:
            self._placed[where] = {name: _place(x, q) for name, x in self._arrays.items()}
        return self._placed[where]

    def __repr__(self) -> str:
        return f"BlockMask({'x'.join(map(str, self.shape))}, {len(self._arrays['block_list'])} blocks of {'x'.join(map(str, self.block_size))})"


def _sides(block_size: Any) -> Tuple[int, int]:
    two = block_size if isinstance(block_size, (tuple, list)) else (block_size, block_size)
    if len(two) != 2:
        raise Invalid(f"block_size {block_size!r} is not one number or two")
    rows, columns = whole("block_size", two[0]), whole("block_size", two[1])
    if rows < 16 or rows % 16 or columns < 32 or columns % 32:
        raise Invalid(f"blocks of {rows} queries and {columns} keys: these are not multiples of 16 and of 32")
    return rows, columns


def _of_torch(mask: Any) -> BlockMask:
    """torch's BlockMask, or what has the same fields. Of the blocks that are not full, its function says which pairs are seen."""
    import numpy
    import torch

    rows, columns = _sides(tuple(mask.BLOCK_SIZE))
    batch, heads, down, _ = mask.kv_indices.shape
    seq, kv_seq = getattr(mask, "seq_lengths", None) or mask.shape[-2:]
    kinds = numpy.zeros((batch, heads, down, -(-kv_seq // columns)), "int8")
    for kind, counts, indices in ((1, mask.kv_num_blocks, mask.kv_indices), (2, mask.full_kv_num_blocks, mask.full_kv_indices)):
        if counts is not None:
            indices = indices.cpu().numpy()
            at = numpy.nonzero(numpy.arange(indices.shape[3]) < counts.cpu().numpy()[..., None])
            kinds[(*at[:3], indices[at])] = kind
    kinds = kinds[:, :, : -(-seq // rows)]
    function, device = mask.mask_mod, mask.kv_indices.device
    if function is None:
        kinds[kinds == 1] = 2

    def bits_of(at: Any) -> Any:
        b, h, row, column = (torch.from_numpy(index).to(device) for index in at)
        # What lies beyond the last query or key does not matter, but the function may look something up by its number.
        query = (row[:, None] * rows + torch.arange(rows, device=device)).clamp(max=seq - 1)
        key = (column[:, None] * columns + torch.arange(columns, device=device)).clamp(max=kv_seq - 1)
        seen = torch.vmap(function, (None, None, None, 0))
        seen = torch.vmap(torch.vmap(seen, (None, None, 0, None)), (0, 0, 0, 0))
        return seen(b, h, query, key).expand(len(b), rows, columns).cpu().numpy()

    made = BlockMask.__new__(BlockMask)
    made._fill((batch, heads, seq, kv_seq), (rows, columns), kinds, bits_of)
    return made


_made: Any = weakref.WeakKeyDictionary()  # of torch's masks


def block_mask_of(mask: Any) -> BlockMask:
    """A block mask as the caller gives it: weft's own or torch's."""
    if isinstance(mask, BlockMask):
        return mask
    if not hasattr(mask, "kv_num_blocks"):
        raise Invalid(f"block_mask is a {type(mask).__name__}, not a weft.BlockMask or torch's BlockMask")
    if mask not in _made:
        _made[mask] = _of_torch(mask)
    return _made[mask]


def tree_of(tree: Any, q: Any) -> Any:
    """The words of a tree mask, (batch, seq) of int64 beside q: from the parent of each token, below 0 that of the root, or from bools."""
    import numpy

    if len(q.shape) != 4:
        raise Unsupported("tree is not for packed batches")
    given = numpy.asarray(tree.cpu() if hasattr(tree, "cpu") else tree)
    tokens = given.shape[-1] if given.ndim else 0
    if given.dtype == bool:
        given = given[None] if given.ndim == 2 else given
        if given.ndim != 3 or given.shape[1] != tokens or not 1 <= tokens <= 64:
            raise Invalid(f"tree is {given.shape}, not (tokens, tokens) or (batch, tokens, tokens) with at most 64 tokens")
        bits = numpy.zeros((*given.shape[:2], 64), bool)
        bits[..., :tokens] = given
        words = numpy.packbits(bits, axis=-1, bitorder="little").view("<i8")[..., 0]
    else:
        given = given[None] if given.ndim == 1 else given
        if given.ndim != 2 or not 1 <= tokens <= 64 or given.dtype.kind not in "iu":
            raise Invalid(f"tree is {given.dtype} of {given.shape}, not the parents of at most 64 tokens, (tokens,) or (batch, tokens)")
        if (given.astype("int64") >= numpy.arange(tokens)).any():
            raise Invalid("tree has a token whose parent does not come before it")
        words = numpy.zeros(given.shape, "uint64")
        for i in range(tokens):  # a token sees itself and what its parent sees
            parent = given[:, i].astype("int64")
            seen = numpy.where(parent < 0, 0, numpy.take_along_axis(words, parent.clip(0)[:, None], 1)[:, 0])
            words[:, i] = seen.astype("uint64") | numpy.uint64(1 << i)
        words = words.view("int64")
    if words.shape[0] not in (1, q.shape[0]):
        raise Invalid(f"tree has {words.shape[0]} batches, and q has {q.shape[0]}")
    return _place(numpy.ascontiguousarray(numpy.broadcast_to(words, (q.shape[0], tokens))), q)
