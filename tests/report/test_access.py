# SPDX-License-Identifier: Apache-2.0
"""The pages for everyone: axe-core finds no violation at any width and in either theme; keyboard and touch reach what a mouse does.

    test_access.py PATH_TO_WEFT FOLDER_FOR_SCREENSHOTS

axe-core is not part of this tree: the file axe.min.js that $WEFT_AXE names, or that a Python package brings (pip install axe-core-python).
"""

import importlib.util
import os
import sys
import unittest

sys.dont_write_bytecode = True  # the tree stays as it is
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from test_pages import PROBLEMS, RANKS, SHAPES, Pages, weft  # noqa: E402

PACKAGES = {"axe_core_python": "axe.min.js", "axe_playwright_python": "axe.min.js", "axe_selenium_python": os.path.join("node_modules", "axe-core", "axe.min.js")}
# Tables that unfold have thousands of rows, all alike: three of each, unfolded.
FEW_ROWS = "for (const d of document.querySelectorAll('details')) { d.open = true; [...d.querySelectorAll('tbody tr')].slice(3).forEach((row) => row.remove()); }"
VIEWS = ["sawtooth", "sides", "dies", "backward"]  # one of each form that a page has


def find_axe():
    """The path of axe.min.js, or None."""
    if os.environ.get("WEFT_AXE"):
        return os.environ["WEFT_AXE"]
    specs = [(importlib.util.find_spec(package), path) for package, path in PACKAGES.items()]
    return next((os.path.join(spec.submodule_search_locations[0], path) for spec, path in specs if spec), None)


class Access(Pages):
    @classmethod
    def setUpClass(cls):
        axe = find_axe()
        if not axe:
            print("no axe-core here: pip install axe-core-python, or set WEFT_AXE to an axe.min.js")
            sys.exit(77)
        super().setUpClass()
        with open(axe, encoding="utf-8") as file:
            cls.axe = file.read()
        cls.pages = {name: os.path.join(cls.folder.name, f"{name}.html") for name in [*VIEWS, "ranks", "report"]}
        for name in VIEWS:
            weft("view", *PROBLEMS[name], "-o", cls.pages[name])
        weft("view", *RANKS, "-o", cls.pages["ranks"])
        weft("report", "h200", "-o", cls.pages["report"])

    def touch(self, selector):
        x, y = self.browser.run(f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{ block: 'center' }}); const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }})()")
        self.browser.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.browser.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def test_axe_finds_nothing(self):
        for name, path in self.pages.items():
            for width, theme in SHAPES:
                with self.subTest(page=name, width=width, theme=theme):
                    self.open(path, width, theme)
                    self.browser.run(FEW_ROWS)
                    self.browser.run(self.axe + "; 0")
                    found = self.browser.run("axe.run().then((r) => r.violations.map((v) => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 160), v.nodes[0].any.map((a) => a.message).join(' ')]))")
                    self.assertEqual(found, [])

    def test_the_first_picture_is_on_the_first_screen(self):
        for name in [*VIEWS, "ranks"]:
            with self.subTest(page=name):
                self.open(self.pages[name], 390)
                top = self.browser.run("Math.min(...[...document.querySelectorAll('main canvas')].filter((e) => e.offsetParent).map((e) => e.getBoundingClientRect().top))")
                self.assertLess(top, 900 - 150)

    def test_controls_stay_in_sight(self):
        self.open(self.pages["sawtooth"], 390)
        self.browser.run("scrollTo(0, 2000)")
        self.assertEqual(self.browser.run("controls.getBoundingClientRect().top"), 0)

    def test_everything_is_reached_by_keyboard_and_seen(self):
        for name in ["sawtooth", "report"]:
            self.open(self.pages[name])
            want = self.browser.run("[...document.querySelectorAll('button, input, select, a[href], summary, [tabindex=\"0\"]')].filter((e) => e.checkVisibility() && e.tabIndex >= 0).length")
            seen = set()
            for step in range(want):
                self.browser.press("Tab")
                state = self.browser.run("(() => { const e = document.activeElement, s = getComputedStyle(e); e.dataset.seen ??= Math.random(); return [e.dataset.seen, s.outlineStyle, parseFloat(s.outlineWidth), e.outerHTML.slice(0, 80)]; })()")
                self.assertTrue(state[1] != "none" and state[2] >= 2, state)
                seen.add(state[0])
            self.assertEqual(len(seen), want, name)

    def test_tabs_show_one_schedule(self):
        shown = lambda: self.browser.run("[...document.querySelectorAll('.panel')].map((p) => p.offsetParent !== null)")
        self.open(self.pages["sawtooth"], 390)
        self.assertEqual(shown(), [True, False])
        self.touch("#tab-1")
        self.assertEqual(shown(), [False, True])
        self.assertEqual(self.browser.run("[...document.querySelectorAll('[role=tab]')].map((t) => t.ariaSelected)"), ["false", "true"])
        self.browser.run("document.getElementById('tab-1').focus()")
        self.browser.press("ArrowLeft")
        self.assertEqual(shown(), [True, False])
        self.assertEqual(self.browser.run("[document.activeElement.id, scrub.value]"), ["tab-0", "0"])
        self.open(self.pages["sawtooth"], 1280)
        self.assertEqual(shown(), [True, True])

    def test_touch_tells_and_plays(self):
        self.open(self.pages["sides"], 390)
        self.touch(".tiles")
        self.assertTrue(self.browser.run("tip.textContent").startswith("tile row m "), self.browser.run("tip.textContent"))
        self.touch("#play")
        self.assertEqual(self.browser.run("play.textContent"), "Pause")


if __name__ == "__main__":
    unittest.main(verbosity=1)
