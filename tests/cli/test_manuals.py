# SPDX-License-Identifier: Apache-2.0
"""Manual pages and completion scripts, which the command writes from its tables.

    test_manuals.py PATH_TO_WEFT

The shells, man and mandoc are asked where they are installed; bash always is.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from command import Command, run

VERBS = re.findall(r"^  (\w+)", run("--help").stdout.split("verbs:\n")[1].split("\n\n")[0], re.MULTILINE)
OPTIONS = {verb: set(re.findall(r"^  (?:-\w, )?--([\w-]+)", run(verb, "--help-all").stdout, re.MULTILINE)) for verb in VERBS}


class Manuals(Command):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.assertEqual(self.ok("man", folder.name), "")
        self.pages = {path.stem: path for path in pathlib.Path(folder.name).iterdir()}

    def text(self, name):
        return self.pages[name].read_text().replace("\\-", "-")

    def test_every_verb_has_a_page(self):
        self.assertEqual(set(self.pages), {"weft", *(f"weft-{verb}" for verb in VERBS)})
        for verb in VERBS:
            self.assertIn(f"\n.B weft-{verb}(1)\n", self.text("weft"))
            self.assertIn(f"\n.B weft {verb} ", self.text(f"weft-{verb}"))

    def test_every_option_is_in_the_page_of_its_verb(self):
        self.assertIn("kv-heads", OPTIONS["run"])
        for verb in VERBS:
            listed = set(re.findall(r"^\.B (?:-\w, )?--([\w-]+)", self.text(f"weft-{verb}"), re.MULTILINE))
            self.assertEqual(listed, OPTIONS[verb])

    def test_pages_are_right(self):
        for name, path in self.pages.items():
            for tool in (["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(path)], ["mandoc", "-T", "lint", "-W", "warning", str(path)]):
                if shutil.which(tool[0]):
                    result = subprocess.run(tool, capture_output=True, text=True, env={**os.environ, "MANPAGER": "cat"})
                    said = [line for line in (result.stderr + (result.stdout if tool[0] == "mandoc" else "")).splitlines() if "missing date" not in line]
                    self.assertEqual(said, [], (name, tool[0]))

    def test_operations_and_studies_are_named(self):
        known = re.search(r"is not known: (.*) are", run("run", "nothing").stderr).group(1)
        operations = re.findall(r"'weft run ([\w-]+)'", known)
        self.assertIn("grouped-gemm", operations)
        script, takers = self.ok("completion", "bash"), 0
        for verb in VERBS:
            subjects = re.search(r"SUBJECT' shows: (.*?)\.", " ".join(self.ok(verb, "--help").split()))
            if subjects:
                takers += 1
                named = "|".join(name for name in subjects.group(1).split(", ") if name != "trace")
                self.assertEqual(named, "|".join(operations))
                self.assertIn(named, self.ok(verb, "--help").replace("\n", ""))
                self.assertRegex(self.text(f"weft-{verb}"), rf"\n\.B weft {verb} .*{re.escape(named)}")
                self.assertRegex(script, rf"\n +{verb}\) list='[^']*\b{' '.join(operations)} ")
        self.assertEqual(takers, 7)
        studies = re.search(r"study nothing is not known: (.*) and all are", run("reproduce", "nothing").stderr)
        self.assertIn(f": {studies.group(1)}, all\n", self.text("weft"))
        self.assertIn(f": {studies.group(1)}, all\n", self.text("weft-reproduce").replace("weft-reproduce - ", ""))
        for text in [*map(self.text, self.pages), *(self.ok("completion", shell) for shell in ("bash", "zsh", "fish"))]:
            self.assertNotRegex(text, "OPERATION|STUDIES")

    def test_a_folder_that_is_not_there(self):
        self.refused("/nowhere/weft.1: No such file or directory", "man", "/nowhere", code=1)


class Completion(Command):
    def test_every_option_is_in_every_script(self):
        for shell, form in [("bash", " --{}"), ("zsh", "'--{}:"), ("fish", " -l {} ")]:
            script = self.ok("completion", shell)
            for verb in VERBS:
                part = script if shell == "fish" else re.search(rf"^ +{verb}\)(.*?);;", script, re.MULTILINE | re.DOTALL).group(1) + " "
                for option in OPTIONS[verb]:
                    self.assertIn(form.format(option), part, (shell, verb))
                    if shell == "fish":
                        self.assertRegex(script, rf"__fish_seen_subcommand_from[ \w]* {verb}\b[ \w]*' -l {option}( |$)")

    def complete(self, shell, program):
        with tempfile.NamedTemporaryFile("w", suffix="." + shell) as script:
            script.write(self.ok("completion", shell))
            script.flush()
            return subprocess.run([shell, *(["-f"] if shell == "zsh" else []), "-c", program.format(script.name)], capture_output=True, text=True)

    def test_bash(self):
        result = self.complete("bash", ". {}; COMP_WORDS=(weft plan gemm --order hil) COMP_CWORD=4; _weft; echo ${{COMPREPLY[*]}};"
                                       "COMP_WORDS=(weft tune gr) COMP_CWORD=2; _weft; echo ${{COMPREPLY[*]}}")  # fmt: skip
        self.assertEqual((result.stdout, result.stderr), ("hilbert\ngrouped-gemm\n", ""))

    @unittest.skipUnless(shutil.which("zsh"), "no zsh here")
    def test_zsh(self):
        result = self.complete("zsh", "autoload -U compinit; compinit -D -u; . {}; print $_comps[weft]; whence -w _weft")
        self.assertEqual((result.stdout, result.stderr), ("_weft\n_weft: function\n", ""))

    @unittest.skipUnless(shutil.which("fish"), "no fish here")
    def test_fish(self):
        result = self.complete("fish", "source {}; complete -C 'weft plan gemm --order hil'; complete -C 'weft vi'")
        self.assertEqual([line.split("\t")[0] for line in result.stdout.splitlines()], ["hilbert", "view"], result.stderr)


if __name__ == "__main__":
    unittest.main()
