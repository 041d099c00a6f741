#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/interface.py finds what breaks programs, and tells it from what does not: libraries of a few lines, before and after a
change."""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
specification = importlib.util.spec_from_file_location("interface", ROOT / "scripts/interface.py")
interface = importlib.util.module_from_spec(specification)
specification.loader.exec_module(interface)

HEADER = """
#include <stddef.h>
typedef enum weft_kind { WEFT_ONE = 1, WEFT_TWO = 2 } weft_kind;
typedef void (*weft_told)(void *user, const char *text);
typedef struct weft_options { size_t struct_size; int width; union { int row, m; }; weft_told told; } weft_options;
typedef struct weft_point { int x, y; } weft_point;
typedef struct weft_closed weft_closed;
#define WEFT_MOST 16
int weft_run(const weft_options *options, weft_kind kind, weft_closed *closed);
weft_point weft_where(void);
"""
SOURCE = """
#include <weft/weft.h>
struct weft_closed { int hidden; };
int weft_run(const weft_options *options, weft_kind kind, weft_closed *closed) { return options->width + kind + closed->hidden; }
weft_point weft_where(void) { return (weft_point){0, 0}; }
"""


class Interface(unittest.TestCase):
    def entries(self, *changes):
        """Of a library after changes of its header and its source."""
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder)
            (tree / "include/weft/order").mkdir(parents=True)
            texts = [HEADER, SOURCE]
            for old, new in changes:
                self.assertTrue(any(old in text for text in texts), old)
                texts = [text.replace(old, new) for text in texts]
            (tree / "include/weft/weft.h").write_text(texts[0])
            (tree / "all.c").write_text(texts[1])
            command = ["gcc", "-std=c11", "-g", "-shared", "-fPIC", "-Iinclude", "all.c", "-o", "libweft.so"]
            subprocess.run(command, check=True, cwd=tree)
            before, interface.ROOT = interface.ROOT, tree
            try:
                return interface.read(str(tree / "libweft.so"))
            finally:
                interface.ROOT = before

    def expect(self, broken, entry, *changes):
        """Whether the changes break programs, and which entry says so; the list that is kept is the text."""
        old = interface.parse("# a comment\n" + interface.write(self.entries()))
        lines, is_broken = interface.differences(old, self.entries(*changes))
        heads = [line for line in lines if not line.startswith(" ")]
        self.assertEqual((heads, is_broken), ([("breaks programs: " if broken else "") + entry], broken))

    def test_entries(self):
        entries = self.entries()
        self.assertEqual(entries["function weft_run"], ["    int (const weft_options *, weft_kind, weft_closed *)"])
        lines = ["0 unsigned long int struct_size", "8 int width", "12 int row", "12 int m", "16 weft_told told", "24 bytes"]
        self.assertEqual([line.strip() for line in entries["struct weft_options"]], lines)
        self.assertEqual(entries["type weft_told"], ["    void (*)(void *, const char *)"])
        self.assertEqual(entries["constant WEFT_MOST"], ["    16"])
        self.assertNotIn("struct weft_closed", entries)
        self.assertEqual(interface.differences(entries, interface.parse(interface.write(entries))), ([], False))

    def test_breaks(self):
        self.expect(True, "struct weft_options", ("int width;", "long width;"))
        self.expect(True, "struct weft_options", ("int width;", "int height, width;"))
        self.expect(True, "struct weft_point", ("int x, y;", "int x, y, z;"))  # has no struct_size
        self.expect(True, "enum weft_kind", ("WEFT_TWO = 2", "WEFT_TWO = 3"))
        self.expect(True, "constant WEFT_MOST", ("MOST 16", "MOST 8"))
        self.expect(True, "type weft_told", ("void *user, const char", "void *user, char"))
        self.expect(True, "function weft_run", ("weft_closed *closed)", "const weft_closed *closed)"))
        self.expect(True, "function weft_where", ("weft_point weft_where(void);", ""),
                    ("weft_point weft_where(void) {", "__attribute__((used)) static weft_point where(void) {"))  # fmt: skip

    def test_adds(self):
        self.expect(False, "struct weft_options", ("weft_told told;", "weft_told told; int later;"))
        self.expect(False, "enum weft_kind", ("WEFT_TWO = 2", "WEFT_TWO = 2, WEFT_THREE = 3"))
        self.expect(False, "constant WEFT_LEAST", ("#define WEFT_MOST 16", "#define WEFT_MOST 16\n#define WEFT_LEAST 1"))
        self.expect(False, "function weft_more", ("weft_point weft_where(void);", "weft_point weft_where(void);\nint weft_more(void);"),
                    ("#include <weft/weft.h>", "#include <weft/weft.h>\nint weft_more(void) { return 1; }"))  # fmt: skip

    def test_not_declared(self):
        with self.assertRaisesRegex(AssertionError, "not both: function weft_where"):
            self.entries(("weft_point weft_where(void);", ""))


if __name__ == "__main__":
    if not shutil.which("abidw"):
        print("skipped: there is no abidw (Debian: abigail-tools)")
        sys.exit(77)
    unittest.main()
