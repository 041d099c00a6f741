#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the site: the guides and the reference, by doxygen, with one tree of pages beside them.

    scripts/site.py FOLDER    leaves FOLDER/html/index.html

Pages are written for a reader of the tree. Here they are copied, with links as doxygen wants them: headings get labels that no
other page has, links to pages become references, what the "Read on" tables name goes into the tree of pages, and files that pages
link to are copied beside them. A link of the site that leads nowhere fails.
"""

import html.parser
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREES = {"README.md": "## Read on", "docs/lab/index.md": "## Pages"}  # sections whose links are the tree of pages
FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"`[^`\n]*`|(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")  # or code, which stays as it is


def pages():
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(ROOT.glob("docs/**/*.md"))]


def anchor(heading):
    """The anchor of a heading, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def label(page, heading=None):
    name = page.relative_to(ROOT).with_suffix("").as_posix()
    name = "index" if name == "README" else re.sub(r"[/.]", "-", name.replace("docs/", "").lower())
    return f"page-{name}--{heading}" if heading else "index" if name == "index" else f"page-{name}"


class Rewriter:
    def __init__(self):
        self.in_tree, self.linked = set(), set()

    def link(self, page, in_tree, match):
        text, target = match[1], match[2]
        if target is None or "://" in target:
            return match[0]
        path, _, heading = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if file.suffix != ".md":
            self.linked.add(file)
            return f"[{text}](files/{file.relative_to(ROOT).as_posix()})"
        if in_tree and not heading and file not in self.in_tree:
            self.in_tree.add(file)
            return f'@subpage {label(file)} "{text}"'
        return f"[{text}](@ref {label(file, heading)})"

    def page(self, page):
        out, title, tree = [], True, False
        for part in FENCE.split(page.read_text(encoding="utf-8")):
            if part.startswith("```"):
                out.append(part)
                continue
            for text in re.split(r"(^#+ .*\n)", part, flags=re.MULTILINE):
                if text.startswith("#"):
                    tree = text.strip() == TREES.get(page.relative_to(ROOT).as_posix())
                    name = label(page) if title else label(page, anchor(text.lstrip("#").strip()))
                    text, title = f"{text.rstrip()} {{#{'mainpage' if name == 'index' else name}}}\n", False
                out.append(LINK.sub(lambda match, t=tree: self.link(page, t, match), text))
        return f"# {page.stem} {{#{label(page)}}}\n\n{''.join(out)}" if title else "".join(out)


class Reader(html.parser.HTMLParser):
    """The anchors of a page of the site, and where it leads."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links = {""}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for key, value in attributes:
            if key == "id" or key == "name" and tag == "a":
                self.anchors.add(value)
            elif key in ("href", "src", "data") and value and not re.match(r"[a-z]+:", value):
                self.links.append(value)


def broken(folder):
    read = {page: Reader(page.read_text(encoding="utf-8")) for page in folder.glob("*.html")}
    for page, reader in read.items():
        for link in reader.links:
            path, _, heading = urllib.parse.unquote(link).partition("#")
            target = folder / path if path else page
            if not target.exists() or target in read and heading not in read[target].anchors:
                yield f"{page.name}: {link}"


def build(folder):
    shutil.rmtree(folder, ignore_errors=True)
    rewriter = Rewriter()
    for page in pages():
        copy = folder / "pages" / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(rewriter.page(page), encoding="utf-8")
    options = (ROOT / "docs" / "Doxyfile").read_text() + f"\nINPUT = {folder}/pages include/weft\nOUTPUT_DIRECTORY = {folder}\n"
    subprocess.run(["doxygen", "-"], input=options, text=True, cwd=ROOT, check=True)
    for file in sorted(rewriter.linked):
        copy = folder / "html" / "files" / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir():
            shutil.copytree(file, copy, dirs_exist_ok=True)
        else:
            shutil.copy(file, copy)
    wrong = list(broken(folder / "html"))
    if wrong:
        sys.exit("\n".join(["links that lead nowhere:", *wrong]))


if __name__ == "__main__":
    if not shutil.which("doxygen"):
        print("doxygen is not installed", file=sys.stderr)
        sys.exit(77)  # a test that is skipped
    try:
        build(Path(os.path.abspath(sys.argv[1])))
    except subprocess.CalledProcessError as error:  # it has said what is wrong
        sys.exit(error.returncode)
