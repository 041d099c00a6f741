#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the tree to its layers: layers.py ROOT [BUILD]

ROOT/tests/lint/layers.txt gives the layers. Fails with file, line and rule
- where a file of src/, include/ or cli/ includes a file of a higher layer, or of its own layer without a `uses`,
- where cli/ includes what is not public,
- where files include each other in a circle, alone or (in one folder) each with the header of its name,
- where folders inside of one folder of src/ use each other in a circle,
- where files of cli/ include each other in a circle, each with the header of its name, whatever their folders,
- where modules of python/ import each other in a circle,
- with BUILD: where an object of it uses a symbol that the layers forbid, where files of one folder of src/ call each other
  in a circle, and where cli/ calls what no public header declares."""
import ast
import collections
import os
import re
import subprocess
import sys

SOURCES = (".c", ".h", ".inc", ".def", ".cu", ".cuh")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

Use = collections.namedtuple("Use", "file line used what")  # what: how a message names what is used


class Table:
    """layers.txt: what may use what."""

    def __init__(self, path):
        self.height, self.beside, self.headers, self.excepted, self.linked = {}, collections.defaultdict(set), {}, set(), set()
        self.rows = {}
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                words = line.split("#")[0].split()
                if words:
                    self.read(words, f"{path}:{number}")
        for name, others in self.beside.items():
            for other in {name} | others:
                if self.height.get(other) != self.height.get(name) or other not in self.height:
                    sys.exit(f"{path}: uses {name} {other}: not two of one layer")
        if circle := circles(self.beside):
            sys.exit(f"{path}: uses: a circle: {' '.join(circle[0])}")

    def read(self, words, where):
        kind, names = words[0], words[1:]
        if kind == "layer" and names and not set(names) & set(self.height):
            self.height.update(dict.fromkeys(names, 1 + max(self.height.values(), default=-1)))
        elif kind == "uses" and len(names) > 1:
            self.beside[names[0]].update(names[1:])
        elif kind == "header" and len(names) > 1 and names[0] in self.height:
            self.headers.update(dict.fromkeys(names[1:], names[0]))
        elif kind == "links" and names and set(names) <= set(self.height):
            self.linked.update(names)
        elif kind == "rows" and len(names) == 2:
            self.rows[names[0]] = re.compile(names[1])
        elif kind == "except" and len(names) == 2:
            self.excepted.add(tuple(names))
        else:
            sys.exit(f"{where}: not a line of this table: {' '.join(words)}")

    def member(self, path):
        """The folder of the table that a file belongs to; None: a public header of all."""
        parts = path.split("/")
        if parts[0] == "include":
            return next((name for header, name in self.headers.items()
                         if path == header or header.endswith("/") and path.startswith(header)), None)
        return "cli" if parts[0] == "cli" else parts[1] if len(parts) > 2 else ""

    def is_row(self, use):
        """Whether a file names a row of its table."""
        return use.file in self.rows and self.rows[use.file].fullmatch(use.what.split()[1])

    def forbids(self, user, used):
        """The rule that a use breaks, or None."""
        if user == used or used is None:
            return None
        if user is None:
            return "a public header includes only public headers"
        if self.height[used] < self.height[user] or used in self.beside[user]:
            return None
        if self.height[used] == self.height[user]:
            return f"{user} and {used} stand side by side"
        return f"{user} is below {used}"


def circles(graph):
    """Sets of nodes that reach each other, sorted: Tarjan's algorithm, without recursion."""
    found, order, low, stack, done = [], {}, {}, [], set()
    for root in sorted(graph):
        if root in order:
            continue
        work = [(root, iter(sorted(graph[root])))]
        order[root] = low[root] = len(order)
        stack.append(root)
        while work:
            node, rest = work[-1]
            for after in rest:
                if after not in order:
                    order[after] = low[after] = len(order)
                    stack.append(after)
                    work.append((after, iter(sorted(graph.get(after, ())))))
                    break
                if after not in done:
                    low[node] = min(low[node], order[after])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    group = stack[stack.index(node):]
                    del stack[stack.index(node):]
                    done.update(group)
                    if len(group) > 1:
                        found.append(sorted(group))
    return found


def source_files(root):
    for top in ("src", "include", "cli"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if name.endswith(SOURCES):
                    yield os.path.relpath(os.path.join(folder, name), root)


def includes(root, path):
    """What a file includes of the tree, found as the compiler finds it; what is not in the tree is the system's."""
    with open(os.path.join(root, path), encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if match := INCLUDE.match(line):
                near = [os.path.dirname(path)] if match[1] == '"' else []
                for folder in near + ["src", "include", "cli"]:
                    used = os.path.normpath(os.path.join(folder, match[2]))
                    if os.path.isfile(os.path.join(root, used)):
                        yield Use(path, number, used, f"includes {match[2]}")
                        break


def objects(build):
    """Object files of the library and of the command, with the source of each."""
    for folder, _, names in os.walk(build):
        match = re.search(r"/(?:weft_objects|weft_cli)\.dir(?:/|$)(.*)", folder)
        for name in names if match else ():
            if name.endswith(".o"):
                yield os.path.join(match[1], name[:-2]), os.path.join(folder, name)


def symbols(path):
    """Names that an object defines for others, and names that it needs."""
    defined, needed = set(), set()
    listing = subprocess.run(["nm", "-g", "-P", path], check=True, capture_output=True, text=True).stdout
    for line in listing.splitlines():
        name, kind = line.split()[:2]
        (needed if kind in "Uw" else defined).add(name)
    return defined, needed


def symbol_uses(root, build):
    """Every symbol that an object takes from another, with the first line of the source that names it."""
    tables = {source: symbols(path) for source, path in objects(build) if os.path.isfile(os.path.join(root, source))}
    if not tables:
        sys.exit(f"{build}: no object files of the library")
    home = {name: source for source, (defined, _) in tables.items() for name in defined}
    for source, (_, needed) in sorted(tables.items()):
        with open(os.path.join(root, source), encoding="utf-8") as file:
            text = file.read()
        for name in sorted(needed & home.keys()):
            at = re.search(rf"\b{re.escape(name)}\b", text)
            yield Use(source, text.count("\n", 0, at.start()) + 1 if at else 1, home[name], f"uses {name} of {home[name]}")


def folder_circles(uses):
    """Folders within one folder of src/ that use each other; a folder and those inside of it are one."""
    graph = collections.defaultdict(set)
    for use in uses:
        a, b = os.path.dirname(use.file), os.path.dirname(use.used)
        if a.split("/")[:2] == b.split("/")[:2] and not (a + "/").startswith(b + "/") and not (b + "/").startswith(a + "/"):
            graph[a].add(b)
    return circles(graph)


def unit(path):
    """A .c file and the header of its name are one."""
    return path[:-2] if path.endswith((".c", ".h")) else path


def same_folder(use):
    return os.path.dirname(use.file) == os.path.dirname(use.used)


def graph_of(uses, name=str):
    """Who uses whom, by the name of each file."""
    graph = collections.defaultdict(set)
    for use in uses:
        if name(use.file) != name(use.used):
            graph[name(use.file)].add(name(use.used))
    return graph


def python_imports(package):
    """A graph of the modules of a package: imports at the head and inside of functions, but not those for type checkers."""
    names = {name[:-3] for name in os.listdir(package) if name.endswith(".py")}
    graph = {name: set() for name in names}

    def visit(node, name):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            graph[name].update({node.module} if node.module else {alias.name for alias in node.names} & names or {"__init__"})
        for child in ast.iter_child_nodes(node):
            visit(child, name)

    for name in names:
        with open(os.path.join(package, name + ".py"), encoding="utf-8") as file:
            visit(ast.parse(file.read()), name)
        graph[name] &= names - {name}
    return graph


def check(root, build):
    """Lines that say what is wrong."""
    path = os.path.join(root, "tests/lint/layers.txt")
    table = Table(path)
    files = sorted(source_files(root))
    for file in files:
        if (member := table.member(file)) is not None and member not in table.height:
            yield f"{file}:1: src/{member} is in no layer of layers.txt"
            return
    included = [use for file in files for use in includes(root, file)]
    called = [use for use in symbol_uses(root, build) if not table.is_row(use)] if build else []
    crossed = set()
    for use in included + called:
        user, used = table.member(use.file), table.member(use.used)
        rule = table.forbids(user, used)
        if user is None and use.used.startswith("include/"):
            rule = None
        if not rule and user == "cli" != used and used not in table.linked and use in included and not use.used.startswith("include/"):
            rule = "cli includes only public headers and its own"
        if rule and (use.file, use.used) in table.excepted:
            crossed.add((use.file, use.used))
        elif rule:
            yield f"{use.file}:{use.line}: {use.what}: {rule}"
    for file, used in sorted(table.excepted - crossed) if build else ():
        yield f"{path}: except {file} {used}: nothing crosses there"
    public = "".join(open(os.path.join(root, file), encoding="utf-8").read() for file in files if file.startswith("include/"))
    for use in called:
        name = use.what.split()[1]
        used = table.member(use.used)
        if table.member(use.file) == "cli" != used and used not in table.linked and not re.search(rf"\b{re.escape(name)}\b", public):
            yield f"{use.file}:{use.line}: {use.what}: no public header declares it"
    for circle in circles(graph_of(included)):
        yield f"{circle[0]}:1: files include each other in a circle: {' '.join(circle)}"
    for circle in circles(graph_of((use for use in included if same_folder(use) and table.member(use.file) != "cli"), unit)):
        yield f"{circle[0]}: files and their headers include each other in a circle: {' '.join(circle)}"
    for circle in circles(graph_of((use for use in included if table.member(use.file) == table.member(use.used) == "cli"), unit)):
        yield f"{circle[0]}: files of the command include each other in a circle: {' '.join(circle)}"
    for circle in circles(graph_of(use for use in called if same_folder(use) and table.member(use.file) != "cli")):
        yield f"{circle[0]}:1: files call each other in a circle: {' '.join(circle)}"
    for circle in folder_circles(included + called):
        yield f"{circle[0]}: folders use each other in a circle: {' '.join(circle)}"
    package = os.path.join(root, "python/weft")
    if os.path.isdir(package):
        for circle in circles(python_imports(package)):
            yield f"python/weft/{circle[0]}.py:1: modules import each other in a circle: {' '.join(circle)}"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    wrong = list(check(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else None))
    print("\n".join(wrong) if wrong else "the layers hold")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
