#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lint of the layers on a small tree: it passes, and one crossing of each kind makes it fail with file, line and rule."""
import os
import subprocess
import sys
import tempfile

LINT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.py")

TABLE = """layer base
layer order
layer plan
layer sim cost cpu
layer registry
layer cli
uses cost sim
links base
header order include/weft/order.h include/weft/order/
"""

GOOD = {
    "tests/lint/layers.txt": TABLE,
    "include/weft/weft.h": "#include \"order.h\"\nint weft_go(void);\nint weft_low(void);\n",
    "include/weft/order.h": "#include \"order/walk.h\"\n",
    "include/weft/order/walk.h": "int weft_walk(void);\n",
    "src/base/low.h": "int low(void);\n",
    "src/base/low.c": "#include \"base/low.h\"\n#include <weft/weft.h>\nint low(void) { return 0; }\n"
                      "int weft_low(void) { return low(); }\n",
    "src/order/walk.c": "#include <weft/order.h>\nint weft_walk(void) { return 1; }\n",
    "src/plan/plan.h": "int plan(void);\n",
    "src/plan/plan.c": "#include \"plan.h\"\n#include \"base/low.h\"\nint plan(void) { return low(); }\n",
    "src/sim/sim.h": "int sim(void);\n",
    "src/sim/sim.c": "#include \"sim/sim.h\"\n#include \"plan/plan.h\"\nint sim(void) { return plan(); }\n",
    "src/cost/cost.c": "#include \"sim/sim.h\"\nint cost(void) { return sim(); }\n",
    "src/cpu/a/a.h": "int a(void);\n",
    "src/cpu/a/a.c": "#include \"cpu/a/a.h\"\nint a(void) { return 0; }\n",
    "src/cpu/b/b.h": "int b(void);\n",
    "src/cpu/b/b.c": "#include \"cpu/a/a.h\"\n#include \"cpu/cpu.h\"\nint b(void) { return a(); }\n",
    "src/cpu/cpu.h": "int cpu(void);\n",
    "src/cpu/cpu.c": "#include \"cpu/b/b.h\"\nint cpu(void) { return b(); }\n",
    "src/registry/go.c": "#include <weft/weft.h>\n#include \"cpu/cpu.h\"\nint weft_go(void) { return cpu(); }\n",
    "cli/main.c": "#include <stdio.h>\n#include <weft/weft.h>\n#include \"base/low.h\"\n#include \"cli.h\"\n"
                  "int main(void) { return weft_go() + low(); }\n",
    "cli/cli.h": "int cli;\n",
    "python/weft/__init__.py": "from .top import go\n",
    "python/weft/top.py": "from . import low\nfrom typing import TYPE_CHECKING\ngo = low\n",
    "python/weft/low.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .top import go\n",
}

# Files that differ, and what the lint says of them; without an answer it passes.
BAD = {
    "a lower layer includes a higher one": (
        {"src/base/low.h": "\n#include \"plan/plan.h\"\nint low(void);\n"},
        "src/base/low.h:2: includes plan/plan.h: base is below plan"),
    "a path relative to the file": (
        {"src/base/low.h": "#include \"../plan/plan.h\"\nint low(void);\n"},
        "src/base/low.h:1: includes ../plan/plan.h: base is below plan"),
    "a row of a table is no use": (
        {"tests/lint/layers.txt": TABLE + "rows src/plan/plan.c si\\w\n",
         "src/plan/plan.c": "int sim(void);\nint plan(void) {\n    return sim();\n}\n"},
        None),
    "a symbol that is no row of the table": (
        {"tests/lint/layers.txt": TABLE + "rows src/plan/plan.c si\n",
         "src/plan/plan.c": "int sim(void);\nint plan(void) {\n    return sim();\n}\n"},
        "src/plan/plan.c:1: uses sim of src/sim/sim.c: plan is below sim"),
    "a lower layer calls a higher one that it declares itself": (
        {"src/plan/plan.c": "int sim(void);\nint plan(void) {\n    return sim();\n}\n"},
        "src/plan/plan.c:1: uses sim of src/sim/sim.c: plan is below sim"),
    "a public function called from below": (
        {"src/order/walk.c": "#include <weft/weft.h>\n\nint weft_walk(void) { return weft_go(); }\n"},
        "src/order/walk.c:3: uses weft_go of src/registry/go.c: order is below registry"),
    "a public header of a layer, included below": (
        {"src/base/low.h": "#include <weft/order.h>\nint low(void);\n"},
        "src/base/low.h:1: includes weft/order.h: base is below order"),
    "a public header that includes a private one": (
        {"include/weft/weft.h": "#include \"../../src/plan/plan.h\"\nint weft_go(void);\nint weft_low(void);\n"},
        "include/weft/weft.h:1: includes ../../src/plan/plan.h: a public header includes only public headers"),
    "two side by side": (
        {"src/sim/sim.c": "#include \"sim/sim.h\"\n#include \"cpu/cpu.h\"\nint sim(void) { return 0; }\n"},
        "src/sim/sim.c:2: includes cpu/cpu.h: sim and cpu stand side by side"),
    "against the order of a layer": (
        {"src/sim/sim.c": "int cost(void);\nint sim(void) { return cost(); }\n"},
        "src/sim/sim.c:1: uses cost of src/cost/cost.c: sim and cost stand side by side"),
    "folders in a circle": (
        {"src/cpu/a/a.c": "#include \"cpu/b/b.h\"\nint a(void) { return 0; }\n"},
        "src/cpu/a: folders use each other in a circle: src/cpu/a src/cpu/b"),
    "files that include each other": (
        {"src/cpu/a/a.h": "#pragma once\n#include \"other.h\"\nint a(void);\n", "src/cpu/a/other.h": "#include \"a.h\"\n"},
        "src/cpu/a/a.h:1: files include each other in a circle: src/cpu/a/a.h src/cpu/a/other.h"),
    "files that include each other's headers": (
        {"src/cpu/a/a.c": "#include \"c.h\"\nint a(void) { return 0; }\n",
         "src/cpu/a/c.c": "#include \"a.h\"\n", "src/cpu/a/c.h": ""},
        "src/cpu/a/a: files and their headers include each other in a circle: src/cpu/a/a src/cpu/a/c"),
    "files that call each other": (
        {"src/cpu/a/a.c": "int c(void);\nint a(void) { return c(); }\n",
         "src/cpu/a/c.c": "int a(void);\nint c(void) { return a(); }\n"},
        "src/cpu/a/a.c:1: files call each other in a circle: src/cpu/a/a.c src/cpu/a/c.c"),
    "files of the command that include each other's headers": (
        {"cli/cli.h": "int cli;\n", "cli/a/a.c": "#include \"b/b.h\"\n", "cli/a/a.h": "", "cli/b/b.c": "#include \"a/a.h\"\n", "cli/b/b.h": ""},
        "cli/a/a: files of the command include each other in a circle: cli/a/a cli/b/b"),
    "a private header in the command": (
        {"cli/cli.h": "#include \"plan/plan.h\"\nint cli;\n"},
        "cli/cli.h:1: includes plan/plan.h: cli includes only public headers and its own"),
    "a private function in the command": (
        {"cli/main.c": "int plan(void);\nint main(void) { return plan(); }\n"},
        "cli/main.c:1: uses plan of src/plan/plan.c: no public header declares it"),
    "modules in a circle": (
        {"python/weft/low.py": "def go():\n    from . import top\n"},
        "python/weft/low.py:1: modules import each other in a circle: low top"),
    "a folder without a layer": (
        {"src/new/new.c": "int new(void) { return 0; }\n"},
        "src/new/new.c:1: src/new is in no layer of layers.txt"),
    "a known exception": (
        {"src/base/low.h": "#include \"plan/plan.h\"\nint low(void);\n",
         "tests/lint/layers.txt": TABLE + "except src/base/low.h src/plan/plan.h\n"}, None),
    "an exception for nothing": (
        {"tests/lint/layers.txt": TABLE + "except src/base/low.h src/plan/plan.h\n"},
        "except src/base/low.h src/plan/plan.h: nothing crosses there"),
    "uses in a circle": (
        {"tests/lint/layers.txt": TABLE + "uses sim cost\n"}, "uses: a circle: cost sim"),
    "uses of another layer": (
        {"tests/lint/layers.txt": TABLE + "uses plan sim\n"}, "uses plan sim: not two of one layer"),
    "a line that is none": (
        {"tests/lint/layers.txt": TABLE + "layers more\n"}, "not a line of this table: layers more"),
}


def lint(files):
    """The exit status and the lines of the lint on these files."""
    with tempfile.TemporaryDirectory() as root:
        build = os.path.join(root, "build")
        for name, text in files.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        for name in files:
            if name.endswith(".c"):
                target = "weft_cli" if name.startswith("cli/") else "weft_objects"
                out = os.path.join(build, "CMakeFiles", target + ".dir", name + ".o")
                os.makedirs(os.path.dirname(out), exist_ok=True)
                subprocess.run(["cc", "-I", "src", "-I", "include", "-I", "cli", "-c", name, "-o", out], cwd=root, check=True)
        run = subprocess.run([sys.executable, LINT, root, build], capture_output=True, text=True, check=False)
        return run.returncode, (run.stdout + run.stderr).replace(root + "/", "").splitlines()


def main():
    status, lines = lint(GOOD)
    assert (status, lines) == (0, ["the layers hold"]), lines
    for name, (files, answer) in BAD.items():
        status, lines = lint({**GOOD, **files})
        wanted = 1 if answer else 0
        assert status == wanted, f"{name}: exit status {status}: {lines}"
        assert not answer or any(line.endswith(answer) for line in lines), f"{name}: {lines}"
    print(f"{len(BAD)} trees")


if __name__ == "__main__":
    main()
