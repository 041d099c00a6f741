#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""weft simulate trace, weft view trace and --trace-out: python3 test_traces.py WEFT"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

WEFT = os.path.abspath(sys.argv.pop(1))
TRACE = """#weft trace grid=2x2
tile,step,tensor,block,bytes,op,time
0,0,A,0,4096,read,1e-6
0,0,B,0,4096,read,
0,1,A,1,4096,read,1e-6
0,1,C,0,4096,write,
3,0,A,0,4096,read,1e-6
3,0,B,7,4096,read,
3,1,A,1,4096,read,1e-6
3,1,C,3,4096,add,
"""


def weft(*arguments, **options):
    return subprocess.run([WEFT, *arguments], capture_output=True, **options)


class Traces(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = self.write("t.csv", TRACE.encode())

    def write(self, name, data):
        path = os.path.join(self.folder.name, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def load(self, *arguments, **options):
        done = weft(*arguments, "--json", **options)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return json.loads(done.stdout)

    def refuse(self, code, text, *arguments, **options):
        done = weft(*arguments, **options)
        self.assertEqual((done.returncode, done.stdout, done.stderr.decode()), (code, b"", f"weft: {text}\n"))

    def test_counts(self):
        found = self.load("simulate", "trace", self.path, "--machine", "gb10", "--workers", "1", "--drift", "0")
        self.assertEqual(found["l2"]["sectors"], 8 * 4096 // 32)
        self.assertEqual(found["dram"], {"read_bytes": 5 * 4096, "write_bytes": 2 * 4096})
        self.assertEqual(found["problem"]["kind"], "trace")
        self.assertEqual([t["name"] for t in found["problem"]["tensors"]], ["A", "B", "C"])
        self.assertGreater(found["predicted"]["seconds"], 4e-6)
        text = subprocess.run([WEFT, "simulate", "trace", self.path, "--machine", "gb10", "--workers", "1", "--drift", "0"], capture_output=True, text=True).stdout
        shown = float(re.search(r"^predicted +(\d+\.\d{4}) ms\n", text, re.MULTILINE).group(1))
        self.assertAlmostEqual(shown, 1e3 * found["predicted"]["seconds"], 3)  # microseconds are no 0
        slower = self.load("simulate", "trace", self.write("u.csv", TRACE.replace("1e-6", "").encode()), "--machine", "gb10",
                           "--workers", "1", "--drift", "0", "--step-seconds", "1")  # fmt: skip
        self.assertAlmostEqual(slower["predicted"]["seconds"], 4, 2)

    def test_standard_input_and_binary(self):
        rows = [line.split(",") for line in TRACE.splitlines()[2:]]
        ops = ["read", "write", "add"]
        records = [struct.pack("<IiHqIBd", int(t), int(s), "ABC".index(n), int(b), int(z), ops.index(o), float(x or 0)) for t, s, n, b, z, o, x in rows]
        data = b"#weft trace binary tensors=A,B,C grid=2x2\ntile,step,tensor,block,bytes,op,time\n" + b"".join(records)
        want = self.load("simulate", "trace", self.path, "--machine", "mi300x", "--per-domain")
        for given in (TRACE.encode(), data):
            found = self.load("simulate", "trace", "-", "--machine", "mi300x", "--per-domain", input=given)
            for key in ("l2", "dram", "llc", "domains", "predicted", "compulsory_misses"):
                self.assertEqual(found[key], want[key])
        self.refuse(2, "standard input: record 9: the file ends in the middle of it", "simulate", "trace", "-", "--machine", "gb10", input=data + b"x")

    def test_a_plans_trace(self):
        for name in ("p.csv", "p.bin"):
            path, plan = os.path.join(self.folder.name, name), ["attention", "--machine", "h200", "--heads", "4", "--seq", "2K", "--causal", "--dtype", "bf16"]
            want = self.load("simulate", *plan, "--trace-out", path)
            found = self.load("simulate", "trace", path, "--machine", "h200")
            for key in ("l2", "dram", "fabric", "predicted", "profile", "compulsory_misses"):
                self.assertEqual(found[key], want[key], key)

    def test_curve_and_views(self):
        curve = self.load("simulate", "trace", self.path, "--machine", "gb10", "--curve")["curve"]
        self.assertEqual((curve[0]["misses"] > curve[-1]["misses"], curve[-1]["misses"]), (True, 6 * 128))  # this machine counts writes as misses
        text = weft("view", "trace", self.path, self.path, "--machine", "gb10", "--text").stdout.decode()
        self.assertEqual(text.count("t.csv: "), 2)
        svg = weft("view", "trace", self.path, "--machine", "h200", "--svg").stdout
        self.assertIn("t.csv", "".join(xml.etree.ElementTree.fromstring(svg).itertext()))

    def test_what_is_refused(self):
        bad = self.write("bad.csv", TRACE.replace("3,0,A,0,4096", "3,0,A,0,2048").encode())
        self.refuse(2, f"{bad}:7: block 0 of A has 2048 bytes, but had 4096 before", "simulate", "trace", bad, "--machine", "gb10")
        self.refuse(1, "/nowhere.csv: No such file or directory", "simulate", "trace", "/nowhere.csv", "--machine", "gb10")
        self.refuse(2, "simulate trace needs a FILE, or - for standard input", "simulate", "trace")
        self.refuse(2, "x: nothing more is expected here", "simulate", "trace", self.path, "x")
        self.refuse(2, "x: nothing more is expected here", "simulate", "gemm", "x")
        self.refuse(2, "a trace takes no options of problems", "simulate", "trace", self.path, "--seq", "5")
        self.refuse(2, "--order does not apply to a trace", "simulate", "trace", self.path, "--order", "hilbert")
        self.refuse(2, "--trace-out does not apply to a trace", "simulate", "trace", self.path, "--trace-out", "y")
        self.refuse(2, "--step-seconds is for traces", "simulate", "gemm", "--step-seconds", "1")
        self.refuse(2, "view needs -o FILE.html, --text, --svg or --json", "view", "trace", self.path)


if __name__ == "__main__":
    unittest.main()
