# SPDX-License-Identifier: Apache-2.0
"""Options of attentions: every mask, every batch, from the outside.

    test_attention_options.py PATH_TO_WEFT
"""

import os
import tempfile
import unittest

from command import Command

FORWARD = [
    ["--seq", "70", "--chunk", "16"],
    ["--seq", "70", "--causal", "--chunk", "16"],
    ["--seq", "70", "--causal", "--prefix", "20"],
    ["--seq", "40", "--kv-seq", "90", "--causal", "--bottom-right", "--window", "12,0"],
    ["--seq", "70", "--head-dim", "40", "--head-dim-v", "24", "--softcap", "3"],
    ["--seq", "70", "--head-dim", "33", "--sinks", "--alibi", "--causal"],
    ["--seq", "70", "--dropout", "0.3", "--batch", "2"],
    ["--lengths", "30,0,55", "--causal", "--alibi", "--sinks"],
    ["--lengths", "30,7,55", "--kv-lengths", "30,0,80", "--causal", "--bottom-right", "--window", "9,0"],
]

CACHES = [
    ["--seq", "1", "--page", "16", "--kv-lengths", "1000,17,300"],
    ["--seq", "2", "--page", "64", "--kv-lengths", "1000,17,0", "--append", "2", "--rotary", "64", "--causal", "--bottom-right"],
    ["--seq", "1", "--kv-lengths", "2000,1700", "--append", "1", "--rotary", "16", "--rotary-interleaved"],
    ["--lengths", "3,0,40", "--kv-lengths", "100,17,60", "--page", "1", "--append", "43", "--window", "20,0"],
]


class Run(Command):
    def test_results_pass_their_check_in_both_directions(self):
        for options in FORWARD:
            for direction in [], ["--backward"]:
                found = self.json("run", "attention", "--heads", "2", "--kv-heads", "1", *options, *direction)
                self.assertTrue(found["check"]["passed"], (options, direction))

    def test_caches_pass_their_check(self):
        for dtype in "fp32", "bf16":
            for options in CACHES:
                found = self.json("run", "attention", "--heads", "8", "--kv-heads", "2", "--dtype", dtype, *options)
                self.assertTrue(found["check"]["passed"], (dtype, options))

    def test_caches_are_told(self):
        told = self.json("run", "attention", "--seq", "1", "--page", "16", "--kv-lengths", "100,17", "--append", "1", "--rotary", "8")["problem"]
        expected = {"batch": 2, "kv_seq": 112, "page": 16, "kv_lengths": [100, 17], "append": 1, "rotary": 8}
        self.assertEqual({name: told.get(name) for name in expected}, expected)
        usual = self.json("run", "attention", "--seq", "8")["problem"]
        for name in "page", "append", "rotary", "rotary_interleaved":
            self.assertNotIn(name, usual)

    def test_caches_are_simulated(self):
        options = ["attention", "--machine", "gb10", "--seq", "1", "--heads", "8", "--kv-heads", "2", "--kv-lengths", "1000,17", "--append", "1"]
        read = {}
        for page in "0", "1", "16":
            found = self.json("simulate", *options, "--page", page)
            self.assertEqual(found["problem"].get("page"), int(page) or None)
            self.assertEqual(found["problem"]["kv_lengths"], [1000, 17])
            read[page] = found["compulsory_misses"]
        self.assertEqual(read["16"], read["1"])
        self.assertLess(read["16"], read["0"])  # of keys in one piece, whole blocks
        text = self.ok("simulate", *options, "--page", "16")
        self.assertIn("17 to 1000 keys each, pages of 16, append 1", text)
        for row in self.json("compare", *options, "--page", "16")["schedules"]:
            self.assertGreaterEqual(row["misses"], read["16"])
        self.assertIn("recommended", self.json("plan", *options, "--page", "16"))

    def test_only_rows_of_sequences_are_compared(self):
        found = self.json("run", "attention", "--lengths", "3,0,4", "--heads", "2")
        self.assertEqual(found["check"]["checked"], 14)

    def test_problems_tell_what_they_have_that_is_not_usual(self):
        usual = self.json("run", "attention", "--seq", "8")["problem"]
        for name in "chunk", "prefix", "head_dim_v", "softcap", "dropout", "sinks", "alibi", "lengths", "kv_lengths":
            self.assertNotIn(name, usual)
        told = self.json(
            "run", "attention", "--lengths", "3,0,1K", "--kv-lengths", "5,6,7", "--causal", "--chunk", "4", "--head-dim-v", "8", "--softcap", "2",
            "--dropout", "0.5", "--alibi",
        )["problem"]  # fmt: skip
        expected = {"lengths": [3, 0, 1024], "kv_lengths": [5, 6, 7], "seq": 1027, "kv_seq": 18, "chunk": 4, "head_dim_v": 8}
        expected |= {"softcap": 2.0, "dropout": 0.5, "alibi": True, "batch": 1}
        self.assertEqual({name: told.get(name) for name in expected}, expected)
        self.assertNotIn("sinks", told)

    def test_mistakes(self):
        for expected, options in [
            ("--lengths says how many queries and keys there are: leave out --seq and --kv-seq", ["--lengths", "3,4", "--seq", "7"]),
            ("--lengths says how many queries and keys there are: leave out --seq and --kv-seq", ["--lengths", "3,4", "--kv-seq", "7"]),
            ("--kv-lengths says how many sequences and keys there are: leave out --batch and --kv-seq", ["--kv-lengths", "3,4", "--batch", "2"]),
            ("--kv-lengths says how many sequences and keys there are: leave out --batch and --kv-seq", ["--kv-lengths", "3,4", "--kv-seq", "4"]),
            ("--page with --lengths needs --kv-lengths", ["--lengths", "3,4", "--page", "16"]),
            ("kv_seq 33 is no multiple of cache.page 16", ["--seq", "33", "--page", "16"]),
            ("cache.rotary_dim 3 is not even and between 0 and head_dim 64", ["--seq", "8", "--rotary", "3"]),
            ("--lengths and --kv-lengths are not lists of as many sequences", ["--lengths", "3,4", "--kv-lengths", "3"]),
            ("batch 2 of a packed batch is not 1", ["--lengths", "3,4", "--batch", "2"]),
            ("seq 0 is not between 1 and 2147483647", ["--lengths", "0,0"]),
            ("dropout 1 is not at least 0 and below 1", ["--dropout", "1"]),
            ("softcap -1 is not at least 0", ["--softcap", "-1"]),
        ]:
            self.refused(expected, "run", "attention", *options)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "problems.csv")
            with open(path, "w") as file:
                file.write("subject,lengths\nattention,3\n")
            self.refused(f"{path}:2: lengths cannot be a column: a cell ends at a comma", "tune", "--file", path)


class Simulate(Command):
    """On a machine and with a kernel whose requests are what the steps ask for."""

    HEADS, TILE, HEAD_DIM = 4, 64, 128

    def simulate(self, *options):
        return self.json(
            "simulate", "attention", "--machine", "gb10", "--profile", "sawtooth-cuda", "--dtype", "fp16", "--heads", str(self.HEADS),
            "--head-dim", str(self.HEAD_DIM), "--tile", f"{self.TILE}x{self.TILE}", *options,
        )  # fmt: skip

    def test_a_packed_batch_is_its_sequences(self):
        for mask in [], ["--causal"], ["--causal", "--window", "256,0"], ["--chunk", "192"], ["--causal", "--backward"]:
            packed = self.simulate("--lengths", "1K,0,2K,512", *mask)
            apart = [self.simulate("--seq", length, *mask) for length in ("1K", "2K", "512")]
            for name in "piece_visits", "compulsory_misses":
                self.assertEqual(packed[name], sum(one[name] for one in apart), (mask, name))
            self.assertEqual(packed["l2"]["sectors_from_sm"], sum(one["l2"]["sectors_from_sm"] for one in apart), mask)
            self.assertEqual(packed["dram"]["write_bytes"], sum(one["dram"]["write_bytes"] for one in apart), mask)

    def test_a_block_of_two_sequences_is_one(self):
        packed, whole = self.simulate("--lengths", "100,0,100", "--causal"), self.simulate("--seq", "200", "--causal")
        self.assertEqual(packed["compulsory_misses"], whole["compulsory_misses"])

    def test_windows_ask_for_what_their_steps_see(self):
        seq, left = 4096, 1000
        blocks = range(seq // self.TILE)
        steps = sum(1 + block - max(0, block * self.TILE - left) // self.TILE for block in blocks)
        block = self.TILE * self.HEAD_DIM * 2 // 32  # sectors of a block of Q, K, V or O
        found = self.simulate("--seq", str(seq), "--causal", "--window", f"{left},0")
        self.assertEqual(found["piece_visits"], 2 * self.HEADS * steps)
        self.assertEqual(found["l2"]["sectors_from_sm"], self.HEADS * block * (2 * steps + 2 * len(blocks)))

    def test_a_chunk_is_a_sequence_of_its_own(self):
        chunked = self.simulate("--seq", "2K", "--causal", "--chunk", "512")
        packed = self.simulate("--lengths", "512,512,512,512", "--causal")
        for name in "piece_visits", "compulsory_misses":
            self.assertEqual(chunked[name], packed[name])

    def test_lists_of_lengths_are_one_point_of_a_sweep(self):
        points = self.json("simulate", "attention", "--machine", "gb10", "--lengths", "100,200", "--heads", "1,2")
        self.assertEqual([point["problem"]["lengths"] for point in points], [[100, 200]] * 2)

    def test_words(self):
        text = self.ok("simulate", "attention", "--machine", "gb10", "--lengths", "100,2000,37", "--causal", "--bottom-right", "--softcap", "30")
        self.assertIn(", causal, bottom right, packed, 3 sequences of 37 to 2000, softcap 30\n", text)
        text = self.ok("simulate", "attention", "--machine", "gb10", "--seq", "2K", "--chunk", "512", "--head-dim-v", "32", "--alibi")
        self.assertIn(", head dim 64 (V 32), fp32, chunks of 512, offset 0, alibi\n", text)


class View(Command):
    def test_pages(self):
        with tempfile.TemporaryDirectory() as folder:
            for number, options in enumerate([["--lengths", "200,30,300", "--causal"], ["--seq", "600", "--causal", "--window", "128,0"]]):
                path = os.path.join(folder, f"{number}.html")
                self.ok("view", "attention", "--machine", "gb10", "--heads", "2", *options, "-o", path)
                self.assertGreater(os.path.getsize(path), 1000)


if __name__ == "__main__":
    unittest.main()
