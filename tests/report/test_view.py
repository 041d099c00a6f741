# SPDX-License-Identifier: Apache-2.0
"""weft view without a browser: the data that a page holds, the still, the text, and what is refused.

    test_view.py PATH_TO_WEFT
"""

import base64
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

WEFT = os.path.abspath(sys.argv.pop(1))
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
SAWTOOTH = ["attention", "--machine", "gb10", "--seq", "128K", "--dtype", "fp16", "--tile", "256x256", "--order", "head-first"]
DIES = ["attention", "--machine", "mi300x", "--heads", "16", "--kv-heads", "8", "--seq", "2K", "--head-dim", "128", "--causal"]
SIDES = ["gemm", "--machine", "h200", "--m", "2K", "--n", "3K", "--k", "1K", "--cluster", "2x1"]


def run(*arguments, **options):
    return subprocess.run([WEFT, *arguments], capture_output=True, text=True, **options)


def load(*arguments):
    result = run(*arguments, "--json")
    assert (result.returncode, result.stderr) == (0, ""), result
    return json.loads(result.stdout)


class Numbers:
    """What src/report/bytes.h writes, read back."""

    def __init__(self, text):
        self.data, self.at = base64.b64decode(text), 0

    def next(self):
        value, shift = 0, 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self):
        coded = self.next()
        return -(coded + 1) // 2 if coded % 2 else coded // 2

    def column(self, count, stride=1):
        values = []
        for i in range(count):
            values.append(self.signed() + (values[i - stride] if i >= stride else 0))
        return values


class Data(unittest.TestCase):
    def test_a_decoded_trace_adds_up_to_the_simulation(self):
        for arguments in [SAWTOOTH, DIES, SIDES]:
            for schedule in load("view", *arguments)["schedules"]:
                with self.subTest(arguments=arguments, schedule=schedule["name"]):
                    self.check(schedule)

    def check(self, schedule):
        trace, simulation, grid = schedule["trace"], schedule["simulation"], schedule["grid"]
        frames, domains, visits = trace["frames"], trace["domains"], trace["visits"]
        numbers = Numbers(trace["visit"])
        names = ["worker", "tile", "position", "begin", "length", "steps", "first", "last", "line0", "line1", "lookups", "misses"]
        visit = {name: numbers.column(visits) for name in names}
        self.assertEqual(numbers.at, len(numbers.data))
        self.assertEqual(sum(visit["misses"]), simulation["l2"]["misses"])
        self.assertGreaterEqual(sum(visit["lookups"]), simulation["l2"]["sectors"])  # requests in flight are not merged yet
        cluster = grid["cluster"]
        tiles = {tile + r * grid["cols"] + c for tile in visit["tile"] for r in range(cluster[0]) for c in range(cluster[1])}
        self.assertEqual(tiles, set(range(grid["rows"] * grid["cols"])))
        self.assertEqual(visit["begin"], sorted(visit["begin"]))
        self.assertLess(max(visit["worker"]), trace["workers"])

        numbers = Numbers(trace["counters"])
        counters = {name: numbers.column(frames * domains, domains) for name in ["sectors", "hits", "misses", "fabric", "dram"]}
        for d, domain in enumerate(simulation["domains"]):
            last = (frames - 1) * domains + d
            for name in ["sectors", "hits", "misses"]:
                self.assertEqual(counters[name][last], domain["l2"][name])
            self.assertEqual(counters["fabric"][last], domain["fabric"]["sectors"])

        cells, numbers = trace["map"]["rows"] * trace["map"]["cols"], Numbers(trace["resident"])
        for _ in range(frames * domains):
            at = numbers.next()
            while at < cells:
                run = numbers.next()
                self.assertLessEqual(run % 8, trace["map"]["full"])
                at += run // 8 + numbers.next()
            self.assertEqual(at, cells)
        self.assertEqual(numbers.at, len(numbers.data))
        self.assertEqual(len(base64.b64decode(trace["reuse"]["data"])), frames * (trace["reuse"]["bins"] + 1))

    def test_numbers_are_those_of_simulate(self):
        for schedule in load("view", *SAWTOOTH, "--schedules", "forward,sawtooth+dynamic")["schedules"]:
            chosen = schedule["simulation"]["schedule"]
            alone = load("simulate", *SAWTOOTH, "--sweep", chosen["sweep"], "--dispatch", chosen["dispatch"], "--per-domain")
            curve = load("simulate", *SAWTOOTH, "--sweep", chosen["sweep"], "--dispatch", chosen["dispatch"], "--curve")
            del alone["elapsed_seconds"], schedule["simulation"]["elapsed_seconds"]
            self.assertEqual(schedule["simulation"], alone)
            self.assertEqual(schedule["curve"], curve["curve"])

    def test_schedules(self):
        names = lambda *arguments: [s["name"] for s in load("view", *arguments)["schedules"]]
        small = ["--m", "1K", "--n", "1K", "--k", "256"]
        self.assertEqual(names("gemm", "--machine", "gb10", *small, "--schedules", "raster-n,group-3,hilbert"), ["raster-n", "group-3", "hilbert"])
        self.assertEqual(names("gemm", "--machine", "gb10", *small, "--order", "hilbert"), ["hilbert forward"])
        self.assertEqual(names(*SAWTOOTH), ["forward", "sawtooth"])
        self.assertEqual(names(*DIES), ["block-first", "head-first-swizzled"])
        self.assertEqual(names(*SAWTOOTH, "--schedules", "forward+grid,forward+static"), ["grid", "static"])

    def test_a_large_grid_makes_a_small_page(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.html")
            result = run("view", "gemm", "--machine", "gb10", "--m", "16K", "--n", "16K", "--k", "4K", "--dtype", "bf16", "--tile", "128x128", "-o", path)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, f"open {path}\n", ""))
            self.assertLess(os.path.getsize(path), 2_000_000)
            with open(path, encoding="utf-8") as file:
                text = file.read()
        data = json.loads(re.search(r'id="data">\n(.*?)\n</script>', text, re.DOTALL).group(1))
        self.assertEqual([(s["grid"]["rows"], s["grid"]["cols"]) for s in data["schedules"]], [(128, 128)] * 3)
        # Nothing is loaded from anywhere.
        self.assertEqual(re.findall(r'(?:src|href)="(?!data:,")[^"]*"|url\([^)]*\)|@import|fetch\(|XMLHttpRequest', text), [])
        self.assertEqual(set(re.findall(r"https?://[^\"'\s]+", text)), {"http://www.w3.org/2000/svg"})


class Ranks(unittest.TestCase):
    ask = ["attention", "--machine", "h800", "--ranks", "8", "--heads", "4", "--seq", "4K", "--head-dim", "64", "--dtype", "bf16", "--causal"]

    def test_bars_are_what_simulate_says(self):
        for options, names in [([], ["contiguous", "zigzag"]), (["--cut", "striped"], ["ring", "all-gather"]), (["--cut", "striped", "--exchange", "ring"], ["striped"])]:
            ways = load("view", *self.ask, *options)["ways"]
            self.assertEqual([way["name"] for way in ways], names)
            for way in ways:
                alone = load("simulate", *self.ask, "--cut", way["simulation"]["ranks"]["cut"], "--exchange", way["simulation"]["ranks"]["exchange"])["predicted"]
                del alone["elapsed_seconds"], way["simulation"]["predicted"]["elapsed_seconds"]
                self.assertEqual(way["simulation"]["predicted"], alone)
                computing = [sum(end - begin for rank, _, begin, end in way["bars"] if rank == r) for r in range(8)]
                share = sum(computing) / 8 / alone["computing"]["mean"]
                self.assertTrue(0.9 < share <= 1, share)  # sums are rounded after the last step
                self.assertLessEqual(max(bar[3] for bar in way["bars"]), alone["seconds"] * (1 + 1e-9))
                self.assertEqual({part for rank, part, _, _ in way["bars"] if rank == 7}, set(range(8)))

    def test_refusals(self):
        for expected, *options in [
            ("a view of ranks is a page of its own: give -o FILE.html, without --text, --svg and --schedules", "--text"),
            ("200 ranks are too many to look at: at most 128", "--json", "--ranks", "200"),
        ]:
            result = run("view", *self.ask, *options)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (2, "", f"weft: {expected}\n"))


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted([luminance(a), luminance(b)])
    return (high + 0.05) / (low + 0.05)


class Colours(unittest.TestCase):
    def test_contrast(self):
        """Text stands out from what is behind it by 4.5 to 1, graphics by 3 to 1, in both themes."""
        with open(os.path.join(ROOT, "src", "report", "page", "page.css"), encoding="utf-8") as file:
            blocks = re.findall(r":root[^{]*\{(.*?)\n\}", file.read(), re.DOTALL)[:2]
        for block in blocks:
            colours = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", block))
            schedules = [colour for name, colour in colours.items() if name.startswith("schedule-")]
            self.assertEqual(len(set(schedules)), 8)
            self.assertFalse({colours["held"], colours["miss"]} & set(schedules))
            for text in ["ink", "quiet", "accent", "good", "bad", "schedule-3"]:
                for behind in ["paper", "card"]:
                    self.assertGreater(contrast(colours[text], colours[behind]), 4.5, (text, behind))
            for graphic in [*schedules, colours["held"], colours["miss"], colours["much"]]:
                self.assertGreater(contrast(graphic, colours["card"]), 3, graphic)
            self.assertGreater(contrast(colours["held"], colours["miss"]), 1.5)  # also where their hues look alike


class Stills(unittest.TestCase):
    def test_the_picture_of_the_readme_is_what_the_command_makes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.svg")
            subprocess.run([os.path.join(ROOT, "scripts", "picture.sh"), WEFT, path], check=True)
            with open(path) as made, open(os.path.join(ROOT, "docs", "sawtooth.svg")) as kept:
                self.assertEqual(made.read(), kept.read(), "make docs draws it anew")

    def test_svg(self):
        for arguments in [SAWTOOTH, DIES, SIDES]:
            result = run("view", *arguments, "--svg")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            tree = xml.etree.ElementTree.fromstring(result.stdout)
            names = [e.text for e in tree.iter("{http://www.w3.org/2000/svg}text") if e.get("class") == "name"]
            self.assertEqual(names, [s["name"] for s in load("view", *arguments)["schedules"]])

    def test_text_in_a_pipe_is_a_still(self):
        result = run("view", "gemm", "--machine", "gb10", "--m", "4", "--n", "40", "--k", "8", "--tile", "1x1x8", "--schedules", "raster-n,raster-m", "--text")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertNotIn("\033", result.stdout)
        simulation = load("simulate", "gemm", "--machine", "gb10", "--m", "4", "--n", "40", "--k", "8", "--tile", "1x1x8", "--order", "raster-n")
        self.assertIn(f"raster-n: {100 * simulation['l2']['hit_rate']:.2f} % hits", result.stdout)
        rows, columns = [part.split("hits  ")[0] for part in result.stdout.split("tiles     ")[1:]]
        tenth = lambda position: str(min(9, position * 10 // 159))
        self.assertEqual(rows.split(), ["".join(tenth(r * 40 + c) for c in range(40)) for r in range(4)])
        self.assertEqual(columns.split(), ["".join(tenth(c * 4 + r) for c in range(40)) for r in range(4)])

    def test_text_on_a_terminal_moves(self):
        ours, theirs = pty.openpty()
        command = [WEFT, "view", "gemm", "--machine", "gb10", "--m", "512", "--n", "512", "--k", "64", "--order", "hilbert", "--text"]
        process = subprocess.Popen(command, stdout=theirs, stdin=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm-256color"})
        os.close(theirs)
        text = b""
        while text.count(b"\033[H") < 20:  # it would go on for some seconds
            text += os.read(ours, 1 << 16)
        process.terminate()
        process.wait()
        os.close(ours)
        self.assertIn(b"hilbert forward: ", text)
        self.assertIn(b"\033[48;2;", text)


class Refusals(unittest.TestCase):
    def test_messages(self):
        for expected, *arguments in [
            ("view needs -o FILE.html, --text, --svg or --json", "gemm"),
            ("--text, --svg and --json exclude each other", "gemm", "--text", "--svg"),
            ("'view softmax' is not known: 'weft view attention', 'weft view gemm', 'weft view combine' and 'weft view grouped-gemm' are", "softmax", "--text"),
            ("--schedules: 'spiral' is no order, sweep or dispatch: 'weft orders' lists them", "gemm", "--schedules", "hilbert,spiral", "--text"),
            ("--schedules: '' is no order, sweep or dispatch: 'weft orders' lists them", "gemm", "--schedules", "hilbert,", "--text"),
            ("--schedules: 'group-0' is no order, sweep or dispatch: 'weft orders' lists them", "gemm", "--schedules", "group-0", "--text"),
            ("order hilbert is not for attention", "attention", "--schedules", "hilbert", "--text"),
            ("--schedules names more than 8", "gemm", "--schedules", ",".join(["hilbert"] * 9), "--text"),
            ("a grid of 8192 x 8192 tiles is too large to look at: at most 131072 tiles", "gemm", "--m", "1M", "--n", "1M", "--tile", "128x128", "--text"),
            ("drift 2 is not at most 1", "gemm", "--drift", "2", "--text"),
            ("--curve does not apply here: --help lists what does", "gemm", "--curve"),
            ("--output needs a value: FILE", "gemm", "-o"),
            ("kv_heads 3 does not divide heads 8", "attention", "--heads", "8", "--kv-heads", "3", "--text"),
        ]:  # fmt: skip
            with self.subTest(arguments=arguments):
                result = run("view", *arguments)
                self.assertEqual((result.returncode, result.stdout, result.stderr), (2, "", f"weft: {expected}\n"))

    def test_report(self):
        for expected, *arguments in [
            ("report needs -o FILE.html or --json",),
            ("study moon is not known: sawtooth, cutile, tile-scheduling, spark-gemm, numa, h200, context-parallel and all are", "moon", "--json"),
        ]:
            result = run("report", *arguments)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (2, "", f"weft: {expected}\n"))

    def test_a_file_that_cannot_be_written(self):
        result = run("view", "gemm", "--m", "256", "--n", "256", "--k", "64", "-o", "/nowhere/out.html")
        self.assertEqual((result.returncode, result.stderr), (1, "weft: /nowhere/out.html: No such file or directory\n"))


if __name__ == "__main__":
    unittest.main(verbosity=1)
