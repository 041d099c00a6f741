# SPDX-License-Identifier: Apache-2.0
"""One rank of weft.dist, in a process of its own; test_dist.py starts them: dist_ranks.py torch RANK SIZE FILE, or, under mpirun,
dist_ranks.py mpi. Ends with status 0 when all is well."""

import sys

import numpy
import weft

SEQ, KV_HEADS, SHAPE = 45, 2, (2, 45, 4, 16)


def draw(shapes, seed=3):
    generator = numpy.random.default_rng(seed)
    return [generator.standard_normal(shape, dtype=numpy.float32) for shape in shapes]


def shapes():
    return [SHAPE, (2, SEQ, KV_HEADS, 16), (2, SEQ, KV_HEADS, 16), SHAPE]


def near(a, b, bound):
    a, b = (numpy.asarray(x, dtype=numpy.float64) for x in (a, b))
    assert a.shape == b.shape and numpy.abs(a - b).max() <= bound * max(1, numpy.abs(b).max()), numpy.abs(a - b).max()


def fails(kind, words, function):
    try:
        function()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def by_torch(rank, size, path):
    import torch
    import torch.distributed as distributed

    distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=size)
    arrays = [torch.from_numpy(x) for x in draw(shapes())]

    def whole(dtype, options):
        leaves = [x.to(dtype, copy=True).requires_grad_() for x in arrays[:3]]
        o = weft.attention(*leaves, **options)
        o.backward(arrays[3].to(dtype))
        return [o.detach(), *(x.grad for x in leaves)]

    def parts(dtype, options, group=None, **ranks):
        mine = [weft.dist.split(x.to(dtype), group).requires_grad_() for x in arrays]
        o = weft.dist.attention(*mine[:3], group=group, seq=SEQ, kv_seq=SEQ, **options, **ranks)
        o.backward(mine[3].detach())
        return [weft.dist.join(x, group, seq=SEQ) for x in (o.detach(), *(x.grad for x in mine[:3]))]

    for dtype, bound in ((torch.float32, 2e-6), (torch.bfloat16, 2e-2)):
        for options in ({"causal": True}, {"window": (7, 3), "softcap": 4.0}):
            for exchange in ("ring", "all-gather", *(("heads",) if 4 % size == 0 else ())):
                for got, want in zip(parts(dtype, options, exchange=exchange), whole(dtype, options)):
                    assert got.dtype == dtype
                    near(got.float(), want.float(), bound)

    # Products, with gradients: the sum of a layer's two products, the first by columns, the second by rows.
    x, up, down = (torch.from_numpy(y) for y in draw([(21, 13), (13, 10), (10, 17)]))
    want = [x.clone().requires_grad_(), up.clone().requires_grad_(), down.clone().requires_grad_()]
    (want[0] @ want[1] @ want[2]).square().sum().backward()
    axes = (0, 1, 0)
    mine = [weft.dist.split(y, cut="contiguous", axis=axis).clone().requires_grad_() for y, axis in zip((x, up, down), axes)]
    hidden = weft.dist.matmul(*mine[:2], cut="m", m=21, n=10)
    weft.dist.matmul(hidden, mine[2], cut="k", k=10).square().sum().backward()
    for y, whole_y, axis in zip(mine, want, axes):
        near(y.grad, weft.dist.split(whole_y.grad, cut="contiguous", axis=axis), 1e-5)

    # A group whose ranks are not those of the world; those who are not in it have nothing to do with it.
    if size > 2:
        some = distributed.new_group(list(range(1, size)))
        if rank == 0:
            fails(weft.Invalid, "none of the group", lambda: weft.dist.split(arrays[0], some))
        else:
            for got, want in zip(parts(torch.float32, {"causal": True}, some), whole(torch.float32, {"causal": True})):
                near(got, want, 2e-6)
            known = weft.ranks.spread(some, b"of some" if rank == 1 else None)  # as the id of a communicator of NCCL
            assert known == b"of some"
    assert weft.ranks.spread(distributed.group.WORLD, b"of all" if rank == 0 else None) == b"of all"

    mine = [weft.dist.split(x).requires_grad_() for x in arrays[:3]]
    o = weft.dist.attention(*mine, seq=SEQ, kv_seq=SEQ)
    fails(weft.Unsupported, "second derivatives", lambda: torch.autograd.grad(o.sum(), mine, create_graph=True))
    fails(weft.Unsupported, "no gradient", lambda: weft.dist.join(mine[0], seq=SEQ))

    # The last rank does not come: the others are told.
    distributed.barrier()
    if rank < size - 1:
        plain = [x.detach() for x in mine]
        fails(weft.Failed, f"rank {size - 1} has not answered for 2 s",
              lambda: weft.dist.attention(*plain, seq=SEQ, kv_seq=SEQ, seconds=2))  # fmt: skip
    distributed.barrier()


def by_mpi():
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    arrays = draw(shapes())
    mine = [weft.dist.split(x) for x in arrays]
    o = weft.dist.attention(*mine[:3], causal=True, seq=SEQ, kv_seq=SEQ)
    near(weft.dist.join(o, seq=SEQ), weft.attention(*arrays[:3], causal=True), 2e-6)

    a, b = draw([(31, 19), (19, 23)])
    for cut in ("m", "k"):
        made = weft.dist.Matmul(weft.Gemm(31, 23, 19), comm, cut=cut)
        near(made.join(made(made.pick(a, "a"), made.pick(b, "b"))), weft.matmul(a, b), 2e-6)
        assert made.counted() == made.expected()
    del made

    half = comm.Split(comm.rank % 2, -comm.rank)  # the other way round
    made = weft.dist.Attention(weft.Attention(seq=SEQ, head_dim=16, batch=2, heads=4, kv_heads=2, causal=True), half)
    assert (made.rank, made.size) == (half.rank, half.size)
    mine = [made.pick(x, of) for x, of in zip(arrays, "qkv")]
    o, lse = made(*mine, return_lse=True)
    near(made.join(o), weft.attention(*arrays[:3], causal=True), 2e-6)
    assert made.counted() == made.expected()
    made.backward(made.pick(arrays[3]), *mine, o, lse)
    assert made.counted(backward=True) == made.expected(backward=True)
    del made
    half.Free()
    comm.Barrier()


if __name__ == "__main__":
    by_mpi() if sys.argv[1] == "mpi" else by_torch(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    print("well")
