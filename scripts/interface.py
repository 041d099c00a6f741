#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The binary interface of libweft: its functions, structs, enums, callbacks and constants, as a list that is kept for each
version, tests/install/interface-MAJOR.MINOR.txt.

    scripts/interface.py check LIBRARY    fails where the library differs from the list
    scripts/interface.py write LIBRARY    writes the list; not over one of a released version that programs would not survive

libabigail's abidw reads LIBRARY, which must be compiled with -g. The list is the same on x86-64 and aarch64. Exits 77, which
stands for skipped, where there is no abidw or LIBRARY has no debug information.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
NOT_IN_THE_LIBRARY = {"dist_mpi.h", "mpi.h"}  # compiled into programs; libweft_mpi


class Types:
    """The types of abidw's description, as C writes them."""

    def __init__(self, tree):
        self.by_id = {e.get("id"): e for e in tree.iter() if e.get("id")}

    def is_number(self, number):
        element = self.by_id.get(number)
        return element is not None and (element.tag == "type-decl" or (element.tag == "typedef-decl" and self.is_number(element.get("type-id"))))

    def text(self, number):
        element = self.by_id.get(number)
        if element is None:
            return "void"
        of = element.get("type-id")
        kind = element.tag
        if kind == "pointer-type-def":
            target = self.by_id.get(of)
            if target is not None and target.tag == "function-type":
                return self.function(target, "(*)")
            return self.text(of) + ("*" if self.text(of).endswith("*") else " *")
        if kind == "qualified-type-def":
            words = [word for word in ("const", "volatile", "restrict") if element.get(word) == "yes"]
            inner = self.text(of)
            return " ".join([inner, *words] if inner.endswith("*") else [*words, inner])
        if kind == "array-type-def":
            lengths = [s.get("length") for s in element.findall("subrange")]
            return self.text(of) + "".join(f"[{length}]" for length in lengths)
        if kind == "function-type":
            return self.function(element, "")
        if kind == "typedef-decl" and self.is_number(of):
            return self.text(of)  # abidw takes numbers of one type for the same, and any of their names
        return element.get("name")

    def function(self, element, name):
        given = [("..." if p.get("is-variadic") else self.text(p.get("type-id"))) for p in element.findall("parameter")]
        result = element.find("return")
        return f"{self.text(result.get('type-id') if result is not None else None)} {name}({', '.join(given) or 'void'})"


    def members(self, element, base):
        """A line for each member, with its offset in bytes; those of a member without a type of its own name stand in its place."""
        lines = []
        for member in element.findall("data-member"):
            at, field = base + int(member.get("layout-offset-in-bits", "0")) // 8, member.find("var-decl")
            of = self.by_id[field.get("type-id")]
            if of.get("is-anonymous") == "yes" and of.tag in ("class-decl", "union-decl"):
                lines += self.members(of, at)
            else:
                lines.append(f"    {at:4} {self.text(field.get('type-id'))} {field.get('name')}")
        return lines


def is_public(element):
    return "include/weft/" in (element.get("filepath") or "")


def interface(xml):
    """{entry: its lines} from abidw's description."""
    tree = ElementTree.fromstring(xml)
    types = Types(tree)
    exported = {e.get("name") for e in tree.findall("elf-function-symbols/elf-symbol")}
    exported |= {e.get("name") for e in tree.findall("elf-variable-symbols/elf-symbol")}
    entries = {f"function {name}": [] for name in exported}
    for e in tree.iter():
        name = e.get("name")
        if not is_public(e):
            continue
        if e.tag in ("class-decl", "union-decl") and e.get("is-declaration-only") != "yes" and e.get("is-anonymous") != "yes":
            entries[f"struct {name}"] = [*types.members(e, 0), f"    {int(e.get('size-in-bits')) // 8:4} bytes"]
        elif e.tag == "enum-decl" and e.get("is-anonymous") != "yes":
            entries[f"enum {name}"] = [f"    {v.get('value'):>4} {v.get('name')}" for v in e.findall("enumerator")]
        elif e.tag == "typedef-decl":
            text = types.text(e.get("type-id"))
            if text != name:
                entries[f"type {name}"] = [f"    {text}"]
    return entries


def compile_headers(headers, *options):
    """What gcc prints of the headers."""
    includes = "".join(f"#include <weft/{h.name}>\n" for h in headers)
    command = ["gcc", "-std=c11", f"-I{ROOT / 'include'}", "-x", "c", *options, "-"]
    return subprocess.run(command, input=includes, check=True, capture_output=True, text=True).stdout


def prototypes(headers):
    """The functions that the headers declare. Two of the same code may have one description in the library."""
    with tempfile.NamedTemporaryFile() as file:
        compile_headers(headers, "-fsyntax-only", "-aux-info", file.name)
        lines = Path(file.name).read_text()
    found = re.findall(r"include/weft/\S+ \*/ extern (.*?)(weft_\w+) (\(.*\));$", lines, re.M)
    return {f"function {name}": [f"    {result.strip()} {parameters}"] for result, name, parameters in found}


def constants(headers):
    """The macros of the headers that stand for a value."""
    text = compile_headers(headers, "-dM", "-E")
    values = re.findall(r"^#define (WEFT_\w+) (.+)$", text, re.M)
    skip = re.compile(r"_INIT$|_H$|^WEFT_(VERSION.*|API|INLINE|ZERO)$")
    return {f"constant {name}": [f"    {value}"] for name, value in values if not skip.search(name)}


def read(library):
    """The entries of a library and of the headers beside it."""
    headers = sorted(h for h in (ROOT / "include/weft").glob("*.h") if h.name not in NOT_IN_THE_LIBRARY)
    command = ["abidw", "--load-all-types", "--no-parameter-names", "--no-corpus-path", "--no-comp-dir-path", library]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    entries, functions = interface(result.stdout), prototypes(headers)
    exported = {entry for entry in entries if entry.startswith("function ")}
    assert exported == functions.keys(), f"declared or exported, but not both: {', '.join(sorted(exported ^ functions.keys()))}"
    entries = {**entries, **functions, **constants(headers)}
    text = "".join(h.read_text() for h in [*headers, *sorted((ROOT / "include/weft/order").glob("*.h"))])
    declared = {f"{kind} {name}" for kind, name in re.findall(r"^(?:typedef )?(struct|enum) (weft_\w+)\s*\{", text, re.M)}
    if not any(entry.startswith("struct ") for entry in entries):
        print(f"skipped: {library} has no debug information")
        sys.exit(77)
    missing = sorted(declared - entries.keys())
    assert not missing, f"in the headers, and not in the library's debug information: {', '.join(missing)}"
    return entries


def write(entries):
    order = ["function", "struct", "enum", "type", "constant"]
    names = sorted(entries, key=lambda entry: (order.index(entry.split()[0]), entry))
    return "".join(f"{name}\n" + "".join(f"{line}\n" for line in entries[name]) for name in names)


def parse(text):
    entries, lines = {}, None
    for line in text.splitlines():
        if line.startswith(" "):
            lines.append(line)
        elif line and not line.startswith("#"):
            lines = entries[line] = []
    return entries


def breaks(entry, old, new):
    """Whether a program that was compiled with the old entry may fail with the new one."""
    if new is None:
        return True
    if old is None or old == new:
        return False
    if entry.startswith("enum "):
        return not set(old) <= set(new)
    if entry.startswith("struct "):  # may grow at its end where it says how long it is
        return not (old[0].endswith(" struct_size") and new[: len(old) - 1] == old[:-1])
    return True


def differences(old, new):
    """Lines that say what differs, and whether one of them breaks programs."""
    lines, broken = [], False
    for entry in sorted(old.keys() | new.keys()):
        before, after = old.get(entry), new.get(entry)
        if before == after:
            continue
        fatal = breaks(entry, before, after)
        broken |= fatal
        lines.append(f"{'breaks programs: ' if fatal else ''}{entry}")
        lines += [f"  -{line}" for line in before or [] if line not in (after or [])]
        lines += [f"  +{line}" for line in after or [] if line not in (before or [])]
    return lines, broken


def main(what, library):
    if not shutil.which("abidw"):
        print("skipped: there is no abidw (Debian: abigail-tools)")
        return 77
    version = re.search(r'^#define WEFT_VERSION +"((\d+\.\d+)\.\d+)"', (ROOT / "include/weft/weft.h").read_text(), re.M)
    path = ROOT / f"tests/install/interface-{version[2]}.txt"
    entries = read(library)
    old = parse(path.read_text()) if path.exists() else None
    lines, broken = differences(old, entries) if old is not None else (["there is no list of this version"], False)
    unreleased = f"## {version[1]} (unreleased)" in (ROOT / "CHANGELOG.md").read_text()
    if what == "check":
        print("\n".join(lines) or f"{len(entries)} entries are those of {path.name}")
        if lines and broken and not unreleased:
            print(f"{version[2]} is released: raise the minor version, which is part of the soname, or leave these as they were")
        elif lines:
            print(f"if that is meant, 'make interface' writes {path.relative_to(ROOT)}; CHANGELOG.md says what programs must do")
        return len(lines) > 0
    if broken and not unreleased:
        print("\n".join(lines))
        print(f"{version[2]} is released, and programs compiled with it would fail: raise the minor version first")
        return 1
    head = f"# The binary interface of libweft {version[2]}: 'make interface' writes it, tests/install holds the library to it.\n"
    path.write_text(head + write(entries))
    print(f"{path.relative_to(ROOT)}: {len(entries)} entries")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "write"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
