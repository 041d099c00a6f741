#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cli/studies/packs.def: the batches that MagiAttention's benchmark of context parallelism measures.

    scripts/packs.py > cli/studies/packs.def    (needs NumPy, whose generator the benchmark draws by)

Its sampler, exps/dist_attn/benchmark/utils.py: documents longer than a quarter of the batch are cut into pieces of that and a
rest; all pieces of all documents are shuffled by default_rng(42), laid one behind the other and cut into batches, which are
shuffled again. The first 20 are measured. A piece of usual length is a letter here; only the first and the last of a batch
may be the ends of one that was cut.
"""
import numpy

# The middle of each bin of exps/dist_attn/benchmark/datasets/default/doc_length_distribution.csv, and how many there are.
DOCUMENTS = {5: 30254, 30: 391188, 75: 699596, 150: 1377757, 350: 3794735, 762: 3316785, 1536: 2106566, 3072: 988525,
             6144: 410002, 12288: 173574, 24576: 115007, 49152: 18428, 98304: 22513, 163840: 18284}
ROWS, BATCHES, WIDTH = 8192, 20, 100


def pieces_of(piece):
    """All pieces in the order in which they are shuffled: whole ones first, then rests by bin."""
    whole = sum(length // piece * count for length, count in DOCUMENTS.items())
    rests = [(length % piece, count) for length, count in DOCUMENTS.items() if length % piece]
    return numpy.concatenate([numpy.full(whole, piece)] + [numpy.full(count, rest) for rest, count in rests]).astype(numpy.int32)


def batches_of(gpus):
    rows = ROWS * gpus
    generator = numpy.random.default_rng(42)
    pieces = pieces_of(rows // 4)
    generator.shuffle(pieces)
    ends = numpy.cumsum(pieces, dtype=numpy.int64)
    count = int(ends[-1] // rows)
    cuts = numpy.union1d(ends[ends <= count * rows], rows * numpy.arange(1, count + 1))
    lengths, batch = numpy.diff(cuts, prepend=0), (cuts - 1) // rows
    batches = numpy.split(lengths, numpy.flatnonzero(numpy.diff(batch)) + 1)
    order = list(range(count))
    generator.shuffle(order)
    return [batches[i].tolist() for i in order[:BATCHES]]


def main():
    print("/* SPDX-License-Identifier: Apache-2.0 */\n/* Written by scripts/packs.py. WEFT_PACK(gpus, first, others, last) */\n"
          "/* clang-format off */")
    for gpus in (8, 16, 32, 64):
        piece = ROWS * gpus // 4
        letters = {length % piece: chr(ord("a") + i) for i, length in enumerate(DOCUMENTS) if length % piece}
        letters[piece] = "z"
        for first, *others, last in batches_of(gpus):
            text = "".join(letters[length] for length in others)
            lines = [text[i:i + WIDTH] for i in range(0, len(text), WIDTH)]
            print(f"WEFT_PACK({gpus}, {first}, " + "\n          ".join(f'"{line}"' for line in lines) + f", {last})")
    print("#undef WEFT_PACK")


if __name__ == "__main__":
    main()
