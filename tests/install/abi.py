#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of other versions run with this library: abi.c, compiled against headers whose structs are shorter (an older
version's) and longer (a newer one's), beside the headers as they are.

    abi.py CC SOURCE_TREE LIBRARY_FOLDER
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# What the older version did not have: the last fields of each struct, and their values in its _INIT macro.
SHORTER = [
    ("problem.h", r"    int64_t left, right;(?:(?!\n\}).)*\n\} weft_attention;", "} weft_attention;"),
    ("problem.h", r"\{0, 0, 0\}, 0, 0, 0, 0, 0, 0\.0, 0\.0, 0, 0, \{0, 0, 0\}, 0, 0, 0, \{0, 0, 0, 0, 0\}, 0, 0, 0, 0, 0, 0,\s*\\\n\s*\{0, 0, 0, 0, 0\}, "
     r"\{0, 0, 0, 0, \{0, 0, 0\}, \{0, 0, 0\}, 0, 0, 0, 0, NULL\}, \{0, 0, 0\}, 0, 0\}", "{0, 0, 0}}"),
    ("problem.h", r"    int64_t a_stride, b_stride, c_stride;(?:(?!\n\}).)*\n\} weft_gemm;", "} weft_gemm;"),
    ("problem.h", r"1\.0, 0\.0, 1, 0, 0, 0, 0, WEFT_IDENTITY, 0, WEFT_FP32, 0, 0, WEFT_PRECISION_FP32\}", "1.0, 0.0, 1}"),
    ("data.h", r"    const void \*bias; +/\*\*< \(batch, n\)(?:(?!\n\}).)*\n\} weft_gemm_data;", "} weft_gemm_data;"),
    ("data.h", r"WEFT_GEMM, (?:NULL, ){11}NULL", "WEFT_GEMM, NULL, NULL, NULL"),
    ("data.h", r"    const float \*sinks; (?:(?!\n\}).)*\n\} weft_attention_data;", "} weft_attention_data;"),
    ("data.h", r"WEFT_ATTENTION, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,\s*\\\n\s*\{0, 0, 0, 0, 0\}, 0, \{0, 0, 0, 0, 0\}, \{(?:NULL, )+NULL\}, NULL, NULL, 0",
     "WEFT_ATTENTION, NULL, NULL, NULL, NULL, NULL"),
    ("data.h", r"    const float \*sinks, \*alibi; (?:(?!\n\}).)*\n\} weft_attention_gradients;", "} weft_attention_gradients;"),
    ("data.h", r"NULL,\s*\\\n\s*NULL, NULL, NULL, NULL, \{0, 0, 0, 0, 0\}, 0, \{0, 0, 0, 0, 0\}, NULL, NULL", "NULL"),
    ("problem.h", r"    int32_t into; (?:(?!\n\}).)*\n\} weft_combine;", "} weft_combine;"),
    ("problem.h", r"\{0, 0, 0\}, \{0, 0, 0\}, 0, 0, 0 +\}", "{0, 0, 0}, {0, 0, 0} }"),
    ("plan.h", r"    const weft_device \*device; (?:(?!\n\}).)*\n\} weft_plan_options;", "} weft_plan_options;"),
    ("plan.h", r"sizeof\(weft_plan_options\), NULL, NULL, NULL, 0", "sizeof(weft_plan_options), NULL, NULL"),
    ("problem.h", r"    int32_t optional; [^\n]*\n", ""),
    ("problem.h", r"sizeof\(weft_buffer\), NULL, 0, WEFT_FP32, 0, 0, 0, 0, 0", "sizeof(weft_buffer), NULL, 0, WEFT_FP32, 0, 0, 0, 0"),
    ("machine.h", r"    double l2_waiting;(?:(?!\n\};).)*\n\};", "};"),
    ("machine.h", r'"", 0, 0\.0, 0\.0, 0, 0, 0\.0, 0\.0, 0\.0, 0\.0\}\n/\* clang', '"", 0}\n/* clang'),
    ("profile.h", r"    int64_t in_turn; (?:(?!\n\}).)*\n\} weft_profile;", "} weft_profile;"),
    ("profile.h", r"0\.0, 0\.0, 0, 0\.0, 0 +\\\n    \}", "0.0, 0.0 }"),
    ("sim.h", r"    const weft_profile \*profile; (?:(?!\n\}).)*\n\} weft_simulate_options;", "} weft_simulate_options;"),
    ("sim.h", r"0, NULL, NULL, NULL, NULL \}", "0, NULL, NULL }"),
    ("sim.h", r"    char profile\[32\]; [^\n]*\n", ""),
    ("sim.h", r'0\.0, 0\.0, 0\.0, 0, 0\.0, "" \}', "0.0, 0.0, 0.0, 0, 0.0 }"),
]


def shorten(folder):
    for name, old, new in SHORTER:
        path = folder / "weft" / name
        text, count = re.subn(old, new, path.read_text(), flags=re.S)
        assert count == 1, f"{name}: {count} places for {old}: the header has changed, and this list with it"
        path.write_text(text)


def lengthen(folder):
    """A field at the end of every struct that may grow."""
    for name in ("problem.h", "data.h", "plan.h", "machine.h", "profile.h", "sim.h", "tune.h"):
        path = folder / "weft" / name
        text = path.read_text()
        pattern = re.compile(r"(struct weft_\w+ \{\n    size_t struct_size;(?:(?!\n\}).)*\n)(\}[^\n]*;)", re.S)
        text, count = pattern.subn(lambda m: m[0] if "reserved" in m[1] else f"{m[1]}    int64_t added_later;\n{m[2]}", text)
        assert count > 0, name
        path.write_text(text)


def main(cc, source, library):
    source = pathlib.Path(source)
    for name, change in (("same", lambda folder: None), ("shorter", shorten), ("longer", lengthen)):
        with tempfile.TemporaryDirectory() as folder:
            include, program = pathlib.Path(folder) / "include", pathlib.Path(folder) / "program"
            shutil.copytree(source / "include", include)
            change(include)
            flags = ["-std=c11", "-O1", f"-DWEFT_{name.upper()}", f"-I{include}", f"-L{library}", f"-Wl,-rpath,{library}"]
            subprocess.run([cc, *flags, str(source / "tests/install/abi.c"), "-o", str(program), "-lweft", "-lm"], check=True)
            print(subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout, end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
