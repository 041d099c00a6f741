# SPDX-License-Identifier: Apache-2.0
"""The structures in weft/_c.py are those of the headers, field by field."""

import ctypes
import os
import re
import shutil
import struct
import subprocess

import pytest
import weft
from weft import _c, operations

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")



def c_name(structure):
    return "weft_" + re.sub(r"(?<!^)(?=[A-Z])", "_", structure.__name__).lower()


def structures():
    return [_c.Message, *(getattr(_c, name) for name in _c.STRUCTURES)]


def fields(structure):
    return [name for name, _ in structure._fields_]


def differences(structures, folder):
    """Where structures differ from the headers: a C program prints the offset and the size of every field."""
    lines = []
    for structure in structures:
        name = f"struct {c_name(structure)}"
        for field in fields(structure):
            lines.append(f'printf("{structure.__name__}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
        lines.append(f'printf("{structure.__name__} 0 %zu\\n", sizeof({name}));')
    source, program = folder / "offsets.c", folder / "offsets"
    headers = ("stdio.h", "stddef.h", "weft/dist.h", "weft/nccl.h", "weft/report.h", "weft/search.h", "weft/trace.h", "weft/tune.h")
    head = "".join(f"#include <{header}>\n" for header in headers) + "int main(void) {\n"
    source.write_text(head + "\n".join(lines) + "\n}\n")
    subprocess.run(["cc", "-std=c11", f"-I{ROOT}/include", str(source), "-o", str(program)], check=True)
    output = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    in_c = {name: (int(offset), int(size)) for name, offset, size in map(str.split, output.splitlines())}
    mine = {}
    for structure in structures:
        for field in fields(structure):
            mine[f"{structure.__name__}.{field}"] = getattr(structure, field).offset, getattr(structure, field).size
        mine[structure.__name__] = 0, ctypes.sizeof(structure)
    assert mine.keys() == in_c.keys()
    return [name for name in mine if mine[name] != in_c[name]]


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_offsets_and_sizes(tmp_path):
    assert len(structures()) >= 20 and _c.Attention in structures()
    assert differences(structures(), tmp_path) == []


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_moved_missing_and_resized_fields_are_found(tmp_path):
    def variant(*changed):
        return type("Schedule", (ctypes.Structure,), {"_fields_": [*changed]})

    right = _c.Schedule._fields_
    assert differences([variant(*right)], tmp_path) == []
    assert differences([variant(*right[:2], right[3], right[2], *right[4:])], tmp_path) == ["Schedule.tile_k", "Schedule.tile_n"]
    assert differences([variant(*right[:-1])], tmp_path) == ["Schedule"]
    assert "Schedule.order" in differences([variant(*right[:4], ("order", ctypes.c_int64), *right[5:])], tmp_path)


@pytest.mark.parametrize("operation", operations.BY_NUMBER.values(), ids=lambda operation: operation.problem.subject)
def test_packed_data_is_the_structure(operation):
    structure, number = operation.data, operation.problem.operation
    words = {name: (0x0102030405060700 if form == "P" else 0x01020300) + i for i, (name, form) in enumerate(_c.words(structure).items())}

    def bytes_of(**fields):
        made = structure(ctypes.sizeof(structure), number)
        for name, word in fields.items():
            if name.endswith("]"):  # an element of an array
                array, index = name[:-1].split("[")
                getattr(made, array)[int(index)] = word
                continue
            owners = (made, *(getattr(made, part) for part in ("lengths", "pairs", "cache") if hasattr(made, part)))
            owner = next(owner for owner in owners if hasattr(owner, name))
            kind = dict(owner._fields_)[name]
            setattr(owner, name, ctypes.cast(word, kind) if issubclass(kind, ctypes._Pointer) else word)
        return bytes(made)

    assert _c.packer(structure, number, tuple(words))(*words.values()) == bytes_of(**words)
    some = {name: words[name] for name in list(words)[::-2]}  # the others are 0, in whatever order these come
    assert _c.packer(structure, number, tuple(some))(*some.values()) == bytes_of(**some)
    with pytest.raises((struct.error, IndexError)):  # one is missing
        _c.packer(structure, number, tuple(some))(*list(some.values())[1:])


def test_extras_are_those_of_the_header():
    with open(os.path.join(ROOT, "include", "weft", "problem.h")) as file:
        bits = dict(re.findall(r"    WEFT_([A-Z_]+) = (\d+),? +/\*\*< (?:data|lengths|pairs)\.", file.read()))
    names = {"STARTS": "q_starts", "BLOCKS": "block_starts"}
    of_gemm = {name: bits.pop(name) for name in list(bits) if name.startswith("GEMM_")}
    assert {names.get(name, name.lower()): int(bit) for name, bit in bits.items()} == _c.EXTRAS
    del of_gemm["GEMM_FUNCTION"]  # which is not for Python
    assert {name[len("GEMM_") :].lower(): int(bit) for name, bit in of_gemm.items()} == _c.GEMM_EXTRAS


def test_version_is_the_header_s():
    with open(os.path.join(ROOT, "include", "weft", "weft.h")) as file:
        assert f'"{weft.__version__}"' in file.read()
