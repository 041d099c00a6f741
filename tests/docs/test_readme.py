# SPDX-License-Identifier: Apache-2.0
"""README.md and docs/ tell the truth: commands print what is shown, the C program compiles and runs, links lead
somewhere, pictures are what their scripts draw.

    test_readme.py PATH_TO_WEFT PATH_TO_SHARED_LIBRARY
"""

import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

LIBRARY = os.path.abspath(sys.argv.pop(2))
WEFT = os.path.abspath(sys.argv.pop(1))
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def links(page):
    """What a page links to in this tree."""
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text(page)) if "://" not in link]


def headings(page):
    """The anchors of a page, as GitHub makes them."""
    prose = re.sub(r"^```.*?^```", "", text(page), flags=re.MULTILINE | re.DOTALL)
    plain = (re.sub(r"[^\w\- ]", "", line.lower()) for line in re.findall(r"^#+ (.*)$", prose, re.MULTILINE))
    return {line.replace(" ", "-") for line in plain}


def blocks(page):
    """The languages and contents of a page's blocks of code."""
    return re.findall(r"^```(\w*)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


BLOCKS = blocks(text(os.path.join(ROOT, "README.md")))


PAGES = ["README.md", *(f"docs/{name}.md" for name in ("command", "tutorial", "faq", "adding-a-machine", "adding-a-profile"))]
SLOW_PAGES = ["docs/gallery.md", "docs/choosing-a-machine.md", "docs/own-order.md"]
SLOW = ("weft reproduce ", "weft plan gemm --machine h100 ", "weft plan gemm --machine gb10 ")  # 5 s or more each


class Commands(unittest.TestCase):
    """Lines of code that begin with `weft`, and what prepares files for them, run, page by page in a folder of its own; not in blocks
    that are marked `gpu`. What stands below `$ weft` is what it prints."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        path = os.pathsep.join([os.path.dirname(WEFT), os.environ["PATH"]])
        self.environment = {**os.environ, "PATH": path, "WEFT_TUNING_DB": os.path.join(self.folder, "tuning.db")}

    def shell(self, line):
        result = subprocess.run(line, shell=True, capture_output=True, text=True, cwd=self.folder, env=self.environment)
        self.assertEqual((result.returncode, result.stderr), (0, ""), line)
        return result.stdout

    def follow(self, page, which=lambda line: not line.startswith(SLOW)):
        count = 0
        for kind, block in blocks(text(os.path.join(ROOT, page))):
            lines = [] if kind == "gpu" else re.sub(r" *\\\n *", " ", block).splitlines()
            for line in lines:
                if re.match(r"weft |python3 -c |sed ", line) and which(line):
                    self.shell(re.split(r" {2,}(?![^']*' )", line)[0])  # what two blanks set apart is a comment
                    count += 1
            for command, output in re.findall(r"^\$ (weft .*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
                self.assertEqual(self.shell(command).strip(), output.strip(), command)
                count += 1
        return count

    def test_pages(self):
        for page in PAGES:
            with self.subTest(page):
                self.assertGreater(self.follow(page), 0)


class Slow(Commands):
    """The same at night, of longer pages and commands."""

    def test_pages(self):
        for page in SLOW_PAGES:
            with self.subTest(page):
                self.assertGreater(self.follow(page), 0)
        self.assertGreater(self.follow("README.md", lambda line: line.startswith(SLOW)), 0)

    def test_measured_gain(self):
        self.environment.update(WEFT_LIBRARY=LIBRARY, PYTHONPATH=os.path.join(ROOT, "python"))
        printed = self.shell(f"{sys.executable} {ROOT}/examples/order_gain.py")
        self.assertEqual(len(re.findall(r"^.+ \d+\.\d{3} s$", printed, re.MULTILINE)), 4, printed)


class Readme(unittest.TestCase):
    def test_program(self):
        (program,) = [block for kind, block in BLOCKS if kind == "c"]
        self.assertLessEqual(len(program.splitlines()), 12)
        with tempfile.TemporaryDirectory() as folder:
            source, binary = os.path.join(folder, "demo.c"), os.path.join(folder, "demo")
            with open(source, "w") as file:
                file.write(program)
            flags = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{ROOT}/include"]
            subprocess.run(["gcc", *flags, source, "-o", binary, LIBRARY], check=True)
            environment = {**os.environ, "LD_LIBRARY_PATH": os.path.dirname(LIBRARY)}
            output = subprocess.run([binary], env=environment, capture_output=True, text=True, check=True).stdout
        self.assertEqual(sorted(output.split()), sorted(f"{m}{n}" for m in range(3) for n in range(4)))

    def test_links(self):
        roots = [os.path.join(ROOT, name) for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
        pages = [*roots, *glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True)]
        self.assertGreater(len(pages), 20)
        for page in pages:
            for link in links(page):
                path, _, heading = link.partition("#")
                target = os.path.join(os.path.dirname(page), path) if path else page
                self.assertTrue(os.path.exists(target), f"{page}: {link}")
                if heading:
                    self.assertIn(heading, headings(target), f"{page}: {link}")

    def test_pages_are_linked(self):
        pages = set(map(os.path.realpath, glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True)))
        found, open_pages = set(), [os.path.join(ROOT, "README.md")]
        while open_pages:  # every page is reached from the README
            page = open_pages.pop()
            for link in links(page):
                target = os.path.realpath(os.path.join(os.path.dirname(page), link.partition("#")[0]))
                if target in pages - found:
                    found.add(target)
                    open_pages.append(target)
        self.assertEqual(found, pages)

    def test_excerpts(self):
        sources = [text(os.path.join(ROOT, "tests", "problem", f"row_sum.{end}")) for end in ("c", "h", "def")]
        page = text(os.path.join(ROOT, "docs", "adding-an-operation.md"))
        found = [block for kind, block in blocks(page) if kind == "c"]
        self.assertEqual(len(found), 4)
        for block in found:
            self.assertTrue(any(block in source for source in sources), block)

    def test_pictures(self):
        drawings = {
            "architecture.svg": ("architecture.py", "tests/lint/layers.txt"),
            "h200.svg": ("chart.py", "docs/results/peers/h200.csv"),
        }
        for picture, (script, source) in drawings.items():
            with tempfile.TemporaryDirectory() as folder:
                drawn = os.path.join(folder, picture)
                paths = [os.path.join(ROOT, name) for name in [f"scripts/{script}", source]]
                subprocess.run([sys.executable, *paths, drawn], check=True)
                self.assertEqual(text(drawn), text(os.path.join(ROOT, "docs", picture)), f"{picture}: run make docs")


if __name__ == "__main__":
    unittest.main()
