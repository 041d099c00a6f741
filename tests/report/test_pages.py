# SPDX-License-Identifier: Apache-2.0
"""The pages in a real browser: no errors, played to the end, the numbers of the JSON, two widths, two themes.

    test_pages.py PATH_TO_WEFT FOLDER_FOR_SCREENSHOTS
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # the tree stays as it is
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import browser  # noqa: E402

SCREENSHOTS = os.path.abspath(sys.argv.pop(2))
WEFT = os.path.abspath(sys.argv.pop(1))
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PROBLEMS = {
    "sawtooth": ["attention", "--machine", "gb10", "--seq", "128K", "--dtype", "fp16", "--tile", "128x128", "--order", "head-first", "--dispatch", "static"],
    "sides": ["gemm", "--machine", "h100", "--m", "4K", "--n", "4K", "--k", "2K", "--dtype", "bf16", "--tile", "128x128x64"],
    "dies": ["attention", "--machine", "mi300x", "--heads", "32", "--seq", "4K", "--head-dim", "128", "--dtype", "bf16", "--tile", "128x64"],
    "window": ["attention", "--machine", "h100", "--heads", "8", "--kv-heads", "2", "--seq", "8K", "--head-dim", "128", "--dtype", "bf16", "--causal", "--window", "1K,0"],
    "packed": ["attention", "--machine", "h100", "--heads", "8", "--kv-heads", "2", "--lengths", "500,2K,100,3000", "--head-dim", "128", "--dtype", "bf16", "--causal"],
    "paged": ["attention", "--machine", "h100", "--heads", "32", "--kv-heads", "8", "--seq", "1", "--page", "64", "--kv-lengths", "8K,4K,100,8K", "--head-dim", "128", "--dtype", "bf16"],
    "backward": ["attention", "--machine", "h200", "--heads", "8", "--seq", "4K", "--head-dim", "128", "--dtype", "bf16", "--causal", "--backward"],
    "grouped": ["grouped-gemm", "--machine", "h200", "--group-rows", "700,0,2K,300", "--n", "2K", "--k", "2K", "--dtype", "bf16"],
    "combine": ["combine", "--machine", "h200"],
}  # fmt: skip
RANKS = ["attention", "--machine", "h100", "--ranks", "8", "--heads", "32", "--seq", "32K", "--head-dim", "128", "--dtype", "bf16", "--causal"]
SHAPES = [(width, theme) for width in [390, 768, 1280, 2560] for theme in ["light", "dark"]]


def weft(*arguments):
    result = subprocess.run([WEFT, *arguments], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, ""), (arguments, result.stderr)
    return result.stdout


class Pages(unittest.TestCase):
    """What both share: a browser, and a folder of pages."""

    @classmethod
    def setUpClass(cls):
        path = browser.find()
        if not path:
            print("no Chromium here: scripts/deps.sh test installs one")
            sys.exit(77)
        os.makedirs(SCREENSHOTS, exist_ok=True)
        cls.folder = tempfile.TemporaryDirectory()
        cls.browser = browser.Browser(path)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def open(self, path, width=1280, theme="light", motion=False):
        self.browser.errors.clear()
        self.browser.shape(width, 900, theme, motion)
        self.browser.open(path)

    def tearDown(self):
        self.assertEqual(self.browser.errors, [])

    # Nothing is wider than the window, nothing but tables scrolls sideways, and no text is cut off.
    def check_fit(self, width):
        self.assertEqual(self.browser.run("document.documentElement.scrollWidth"), width)
        cut = self.browser.run(
            "[...document.querySelectorAll('h1, h2, h3, h4, p, dt, dd, button, label, figcaption, .label, .axes, .keys li, svg text')].filter((e) => {"
            " const box = e.getBoundingClientRect(); if (!box.width || e.closest('.scroll, details, .tabs') || e.closest('label') && innerWidth <= 640) return false;"
            " return e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && !e.closest('svg') || box.right > innerWidth + 1 || box.left < -1; }).map((e) => e.textContent)"
        )
        self.assertEqual(cut, [])


class View(Pages):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.pages = {name: os.path.join(cls.folder.name, f"{name}.html") for name in PROBLEMS}
        for name, problem in PROBLEMS.items():
            weft("view", *problem, "-o", cls.pages[name])

    def scrub(self, share):
        self.browser.run(f"scrub.value = {round(10000 * share)}; scrub.dispatchEvent(new Event('input'))")

    def live(self):
        """What the panels show, by schedule."""
        return self.browser.run(
            "Object.fromEntries([...document.querySelectorAll('.panel')].map((p) => [p.getAttribute('aria-label'),"
            " Object.fromEntries([...p.querySelectorAll('[data-live]')].map((e) => [e.dataset.live, [Number(e.dataset.value), e.textContent]]))]))"
        )

    def test_widths_and_themes(self):
        for name, path in self.pages.items():
            for width, theme in SHAPES:
                with self.subTest(page=name, width=width, theme=theme):
                    self.open(path, width, theme)
                    self.scrub(0.45)
                    self.assertEqual(self.browser.run("document.documentElement.dataset.theme"), theme)
                    self.check_fit(width)
                    self.browser.screenshot(os.path.join(SCREENSHOTS, f"view-{name}-{width}-{theme}.png"))
                    self.assertEqual(self.browser.errors, [])

    def test_headlines(self):
        for name, options, words in [
            ("sawtooth", ["--sweep", "forward"], "fewer misses with sawtooth; same predicted time: compute-bound"),
            ("backward", ["--order", "block-first"], "of it waiting for turns to add"),
        ]:
            self.open(self.pages[name])
            headline = self.browser.run("title.textContent")
            self.assertIn(words, headline)
            worst = json.loads(weft("simulate", *PROBLEMS[name], *options, "--json"))["l2"]["misses"]
            misses = self.browser.run("[...document.querySelectorAll('[data-key=\"l2.misses\"]')].map((e) => Number(e.dataset.value))")
            self.assertEqual(max(misses), worst)
            self.assertTrue(headline.startswith(f"{max(misses) / min(misses):.1f} times fewer misses"), headline)
        order = "held = document.getElementById('held-section').compareDocumentPosition(document.getElementById('panels-section')) & 4 ? 'first' : 'second'"
        for name, place in [("sawtooth", "first"), ("dies", "second")]:  # what stays comes first where schedules differ in the sweep alone
            self.open(self.pages[name])
            self.assertEqual(self.browser.run(order.replace("held = ", "")), place)

    def test_theme_button(self):
        self.open(self.pages["sawtooth"])
        paper = "getComputedStyle(document.body).backgroundColor"
        before = self.browser.run(paper)
        self.browser.run("document.getElementById('theme').click()")
        self.assertEqual(self.browser.run("document.documentElement.dataset.theme"), "dark")
        self.assertNotEqual(self.browser.run(paper), before)

    def test_plays_to_the_end_with_the_numbers_of_simulate(self):
        for name, choices in [("sawtooth", [("forward", "--sweep"), ("sawtooth", "--sweep")]), ("sides", [("raster-n", "--order"), ("hilbert", "--order")]), ("dies", [("block-first", "--order")])]:
            self.open(self.pages[name])
            self.browser.run("speed.value = '16'; play.click()")
            self.browser.play(60)  # 14 s at speed 16
            self.assertEqual(self.browser.run("play.textContent"), "Replay")
            live = self.live()
            for schedule, option in choices:
                with self.subTest(page=name, schedule=schedule):
                    result = json.loads(weft("simulate", *PROBLEMS[name], option, schedule, "--json"))
                    self.assertEqual(live[schedule]["misses"][0], result["l2"]["misses"])
                    self.assertEqual(live[schedule]["dram"][0], result["dram"]["read_bytes"])
                    self.assertAlmostEqual(live[schedule]["hit_rate"][0], result["l2"]["hit_rate"], 12)
                    self.assertEqual(live[schedule]["hit_rate"][1], f"{100 * result['l2']['hit_rate']:.1f} %")
                    cells = self.browser.run(
                        f"Object.fromEntries([...document.querySelectorAll('td[data-schedule=\"{schedule}\"]')].map((e) => [e.dataset.key, Number(e.dataset.value)]))"
                    )
                    self.assertGreater(len(cells), 6)
                    for key, value in cells.items():
                        part = result
                        for step in key.split("."):
                            part = part[step]
                        self.assertEqual(value, part, key)
                    text = self.browser.run(f"document.querySelector('td[data-schedule=\"{schedule}\"][data-key=\"l2.misses\"]').textContent")
                    self.assertEqual(re.sub(r"\D", "", text), str(result["l2"]["misses"]))

    def test_motion(self):
        self.open(self.pages["sawtooth"], motion=True)
        self.browser.play(85)  # plays by itself: a tenth of 14 s
        self.assertEqual(self.browser.run("[play.textContent, scrub.value]"), ["Pause", "1000"])
        self.open(self.pages["sawtooth"], motion=False)
        self.assertEqual(self.browser.run("[play.textContent, scrub.value]"), ["Play", "0"])

    def test_keyboard(self):
        self.open(self.pages["sawtooth"])
        clock = lambda: int(self.browser.run("scrub.value"))
        self.browser.press("ArrowRight")
        first = clock()
        self.assertGreater(first, 0)
        self.browser.press("ArrowRight")
        self.browser.press("ArrowLeft")
        self.assertEqual(clock(), first)
        self.browser.press("End")
        self.assertEqual((clock(), self.browser.run("play.textContent")), (10000, "Replay"))
        self.browser.press("Home")
        self.assertEqual(clock(), 0)
        self.browser.press(" ", "Space")
        self.assertEqual(self.browser.run("play.textContent"), "Pause")
        self.browser.press(" ", "Space")
        self.assertEqual(self.browser.run("play.textContent"), "Play")
        # Everything that can be used can be reached, in the order of the page.
        self.browser.run("document.activeElement.blur()")
        reached = []
        for _ in range(10):
            self.browser.press("Tab")
            reached.append(self.browser.run("document.activeElement.id || document.activeElement.className"))
            self.assertTrue(self.browser.run("getComputedStyle(document.activeElement).outlineStyle") != "none", reached[-1])
        self.assertEqual(reached[:9], ["theme", "play", "back", "forth", "scrub", "speed", "colour", "tiles", "tiles"])

    def test_pointing_tells(self):
        self.open(self.pages["sides"])
        box = self.browser.run("(() => { const b = document.querySelector('.tiles').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
        self.browser.point(box[0] + box[2] * 1.5 / 32, box[1] + box[3] * 2.5 / 32)
        text = self.browser.run("tip.hidden ? '' : tip.textContent")
        self.assertTrue(text.startswith("tile row m 2, tile column n 1\nposition 65, worker 65 on side 1\nreads A of tile row m 2 and B of tile column n 1, k slices 0 up to 31\n"), text)
        self.browser.screenshot(os.path.join(SCREENSHOTS, "view-sides-tip.png"), whole=False)
        self.browser.run("document.querySelector('.tiles').focus()")
        self.browser.press("d")
        self.assertTrue(self.browser.run("tip.textContent").startswith("tile row m 2, tile column n 2\n"))

    def test_domains_are_drawn(self):
        for name, word, count in [("dies", "die", 8), ("sides", "side", 2), ("sawtooth", None, 1)]:
            self.open(self.pages[name])
            self.scrub(0.5)
            labels = self.browser.run("[...document.querySelector('.panel').querySelectorAll('.domain .label span:not(:last-child)')].map((e) => e.textContent)")
            self.assertEqual(labels, [f"{word} {d}" for d in range(count)] if word else [])
            full = self.browser.run("[...document.querySelectorAll('.domain .label span:last-child')].map((e) => parseInt(e.textContent))")
            self.assertTrue(all(0 < share <= 100 for share in full), full)
            if count > 1:
                self.browser.run("colour.value = 'domain'; colour.dispatchEvent(new Event('change'))")
                self.browser.screenshot(os.path.join(SCREENSHOTS, f"view-{name}-by-domain.png"), whole=False)

    def test_traces(self):
        trace, out = os.path.join(self.folder.name, "<own> kernel.csv"), os.path.join(self.folder.name, "trace.html")
        weft("simulate", "gemm", "--machine", "h200", "--m", "1K", "--n", "2K", "--k", "512", "--dtype", "bf16", "--trace-out", trace)
        weft("view", "trace", trace, trace, "--machine", "h200", "-o", out)
        result = json.loads(weft("simulate", "trace", trace, "--machine", "h200", "--json"))
        for width, theme in [(390, "light"), (1280, "dark")]:
            self.open(out, width, theme)
            self.scrub(1)
            self.check_fit(width)
            self.assertTrue(self.browser.run("lead.textContent").startswith("<own> kernel.csv on "))
            self.assertEqual(self.live()["<own> kernel.csv"]["misses"][0], result["l2"]["misses"])
            self.browser.screenshot(os.path.join(SCREENSHOTS, f"view-trace-{width}-{theme}.png"))
        box = self.browser.run("(() => { const b = document.querySelector('.tiles').getBoundingClientRect(); return [b.left, b.top]; })()")
        self.browser.point(box[0] + 2, box[1] + 2)
        self.assertTrue(self.browser.run("tip.textContent").startswith("row 0, column 0\nposition 0, worker 0"), self.browser.run("tip.textContent"))

    def test_a_title_cannot_break_out(self):
        with open(os.path.join(ROOT, "machines", "gb10.ini"), encoding="utf-8") as file:
            text = file.read()
        title = "</script><script>bad()</script><!-- & \"x\""
        path = os.path.join(self.folder.name, "odd.ini")
        with open(path, "w", encoding="utf-8") as file:
            file.write(re.sub(r"^title = .*$", lambda _: f"title = {title}", text, flags=re.MULTILINE))
        out = os.path.join(self.folder.name, "odd.html")
        weft("view", "gemm", "--machine", path, "--m", "512", "--n", "512", "--k", "64", "-o", out)
        self.open(out)
        self.assertIn(title, self.browser.run("lead.textContent"))


class Ranks(Pages):
    def test_plays(self):
        path = os.path.join(self.folder.name, "ranks.html")
        weft("view", *RANKS, "-o", path)
        for width, theme in SHAPES:
            with self.subTest(width=width, theme=theme):
                self.open(path, width, theme)
                self.check_fit(width)
                self.browser.screenshot(os.path.join(SCREENSHOTS, f"view-ranks-{width}-{theme}.png"))
        simulated = {cut: json.loads(weft("simulate", *RANKS, "--cut", cut, "--json"))["predicted"] for cut in ["contiguous", "zigzag"]}
        times = simulated["contiguous"]["seconds"] / simulated["zigzag"]["seconds"]
        self.assertIn(f"{times:.1f} times faster with zigzag than with contiguous: {100 * simulated['zigzag']['efficiency']:.0f} % of ideal", self.browser.run("title.textContent"))
        busy = lambda: self.browser.run("[...document.querySelectorAll('.panel dd[data-value]')].map((e) => Number(e.dataset.value))")
        self.open(path)
        self.browser.press("ArrowRight")
        self.assertEqual(busy(), [8, 8])
        self.browser.press("End")
        self.assertEqual(busy(), [0, 0])
        self.assertEqual(self.browser.run("play.textContent"), "Replay")


class Report(Pages):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = os.path.join(cls.folder.name, "report.html")
        cls.data = json.loads(weft("report", "h200", "-o", cls.path, "--json"))

    def test_every_row_is_there(self):
        self.open(self.path)
        rows = [row for study in self.data["studies"] for row in study["rows"]]
        shown = self.browser.run("[...document.querySelectorAll('.study tr[data-label]')].map((e) => [e.dataset.label, Number(e.dataset.simulated), e.lastChild.textContent])")
        verdict = lambda row: {None: "shown", True: "ok", False: "OUTSIDE"}[row.get("passed")]
        self.assertEqual(shown[: len(rows)], [[row["label"], row["simulated"], verdict(row)] for row in rows])
        judged = [row for row in rows if "passed" in row]
        outside = [row for row in judged if not row["passed"]]
        self.assertEqual([row for row in outside if "known_failure" not in row], [])
        self.assertEqual(self.browser.run("[cards.dataset.judged, cards.dataset.outside]"), [str(len(judged)), str(len(outside))])
        self.assertEqual(self.browser.run("document.querySelectorAll('.strip path.outside').length"), len(outside))

    def test_comparisons_and_runs(self):
        self.open(self.path)
        machines = self.browser.run("[...document.querySelectorAll('#attention [data-machine]')].map((e) => [e.dataset.machine, e.querySelectorAll('td').length])")
        self.assertEqual(machines, [[m, 24] for m in ["b200", "gb10", "h100", "h200", "mi300x"]])
        runs = self.browser.run("[...document.querySelectorAll('tr[data-tflops]')].map((e) => [e.dataset.schedule, Number(e.dataset.tflops), e.lastChild.textContent])")
        self.assertEqual(runs, [[s["schedule"], s["tflops"], "passed"] for run in self.data["runs"] for s in run["schedules"]])

    def test_recorded_files(self):
        self.open(self.path)
        results = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "results")
        files = sorted(name for name in os.listdir(results) if name.endswith(".csv") and name != "h200-streams.csv")
        self.assertEqual(sorted(self.data["recorded"]), files)
        self.assertEqual(self.browser.run("document.querySelectorAll('#recorded article, #elsewhere article').length"), len(files) + 1)  # and the study of the two sides
        self.assertNotIn("NaN", self.browser.run("document.body.textContent"))
        self.assertNotIn("undefined", self.browser.run("document.querySelector('main').textContent"))
        lines = [line for line in self.data["recorded"]["h200-device-sawtooth.csv"].splitlines() if line and line[0] != "#"]
        column = lines[0].split(",").index("simulated_l2_misses")
        want = [float(line.split(",")[column]) for line in lines[1:]]
        shown = self.browser.run("[...document.querySelectorAll('#elsewhere article')].filter((e) => e.querySelector('h3').textContent === 'Launches: sawtooth')"
                                 "[0].querySelectorAll('tr[data-simulated]').length")  # fmt: skip
        self.assertEqual(shown, 2 * len(want))  # misses, and what is read from DRAM

    def test_report_widths_and_themes(self):
        for width, theme in SHAPES:
            with self.subTest(width=width, theme=theme):
                self.open(self.path, width, theme)
                self.check_fit(width)
                self.browser.screenshot(os.path.join(SCREENSHOTS, f"report-{width}-{theme}.png"))


if __name__ == "__main__":
    unittest.main(verbosity=1)
