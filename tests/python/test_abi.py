"""The structures in weft/_c.py are those of the headers, field by field."""

import ctypes
import os
import re
import shutil
import subprocess

import pytest
import weft
from weft import _c

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def c_name(structure):
    return "weft_" + re.sub(r"(?<!^)(?=[A-Z])", "_", structure.__name__).lower()


def structures():
    return [x for x in vars(_c).values() if isinstance(x, type) and issubclass(x, ctypes.Structure) and x is not ctypes.Structure]


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_offsets_and_sizes(tmp_path):
    lines = []
    for structure in structures():
        for field, _ in structure._fields_:
            lines.append(f'printf("{structure.__name__}.{field} %zu %zu\\n", offsetof(struct {c_name(structure)}, {field}),'
                         f" sizeof(((struct {c_name(structure)} *)0)->{field}));")  # fmt: skip
        lines.append(f'printf("{structure.__name__} %zu 0\\n", sizeof(struct {c_name(structure)}));')
    source = tmp_path / "offsets.c"
    head = "#include <stdio.h>\n#include <stddef.h>\n#include <weft/sim.h>\n#include <weft/tune.h>\nint main(void) {\n"
    source.write_text(head + "\n".join(lines) + "\n}\n")
    binary = tmp_path / "offsets"
    subprocess.run(["cc", "-std=c11", f"-I{ROOT}/include", str(source), "-o", str(binary)], check=True)
    output = subprocess.check_output([str(binary)], text=True)
    said = {name: (int(offset), int(size)) for name, offset, size in map(str.split, output.splitlines())}
    for structure in structures():
        for field, _ in structure._fields_:
            mine = getattr(structure, field)
            assert (mine.offset, mine.size) == said[f"{structure.__name__}.{field}"], f"{structure.__name__}.{field}"
        if structure is not _c.Walk:  # of which only the first fields are known
            assert ctypes.sizeof(structure) == said[structure.__name__][0], structure.__name__


def test_version_is_the_header_s():
    with open(os.path.join(ROOT, "include", "weft", "weft.h")) as file:
        assert f'"{weft.__version__}"' in file.read()
