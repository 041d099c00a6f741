# SPDX-License-Identifier: Apache-2.0
"""The tuning store under faults, from the outside: nothing is lost but the row in flight, and nobody crashes.

    test_faults.py PATH_TO_WEFT PATH_TO_STORE_WRITER
"""

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
import unittest

WRITER = os.path.abspath(sys.argv.pop(2))
WEFT = os.path.abspath(sys.argv.pop(1))
SMALL = ["attention", "--heads", "2", "--seq", "64", "--head-dim", "16"]
NOBODY = 65534
SEED = int(os.environ.get("WEFT_TEST_SEED") or 0)  # as in tests/random.h
ROUNDS = int(os.environ.get("WEFT_TEST_ROUNDS") or 100)


def rounds(usual):
    return range(max(1, usual * ROUNDS // 100))


def generator(number):
    return random.Random(f"{SEED} {number}")


class Faults(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.path = os.path.join(self.folder, "tuning.db")
        self.environment = {**os.environ, "WEFT_TUNING_DB": self.path, "OMP_WAIT_POLICY": "passive"}

    def weft(self, *arguments, **options):
        return subprocess.run([WEFT, "tune", *arguments], capture_output=True, text=True, env=self.environment, **options)

    def rows(self):
        result = self.weft("--list", "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout)["rows"]

    def trials(self):
        """How many candidates the store has times of, of tunings that are under way."""
        if not os.path.exists(self.path):
            return 0
        with contextlib.closing(sqlite3.connect(self.path)) as store:
            try:
                return store.execute("SELECT count(*) FROM trials").fetchall()[0][0]
            except sqlite3.OperationalError:  # it is being made
                return 0

    def start_tuner(self, trials, *arguments):
        """A tuner that has timed at least so many candidates and is still at it, however long that takes."""
        process = subprocess.Popen([WEFT, "tune", *arguments], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while self.trials() < trials:
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        return process

    def test_killed_writers(self):
        """Writers, each killed in the middle: every row that was said to be stored is there."""
        draw, said, writers = generator(1), set(), rounds(25)
        for i in writers:
            process = subprocess.Popen([WRITER, str(1000000 * i)], stdout=subprocess.PIPE, text=True, env=self.environment)
            first = "".join(process.stdout.readline() for _ in range(draw.randrange(1, 9)))
            process.send_signal(signal.SIGKILL)
            lines = (first + process.communicate()[0]).split("\n")
            self.assertEqual(process.returncode, -signal.SIGKILL)
            said.update(int(line) for line in lines[:-1])  # the last line may be cut off
        there = {row["date"] for row in self.rows()}
        self.assertGreater(len(said), len(writers))
        self.assertEqual(said - there, set())
        self.assertLessEqual(len(there - said), len(writers))  # at most the row in flight of each
        check = sqlite3.connect(self.path).execute("PRAGMA integrity_check").fetchall()
        self.assertEqual(check, [("ok",)])

    def test_killed_tuners(self):
        """The tuner itself, killed at any point: what was measured stays, and the next one goes on."""
        draw, least = generator(2), 0
        for _ in rounds(4):
            least = self.trials() + draw.randrange(1, 5)
            process = self.start_tuner(least, "attention", "--heads", "2", "--seq", "300", "--exhaustive")
            process.send_signal(signal.SIGKILL)
            process.communicate()
            self.assertGreaterEqual(self.trials(), least)
        result = self.weft("attention", "--heads", "2", "--seq", "300", "--seconds", "1")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(len(self.rows()), 1)
        self.assertEqual(sqlite3.connect(self.path).execute("SELECT count(*) FROM trials").fetchall(), [(0,)])

    def test_interrupted(self):
        process = self.start_tuner(1, "attention", "--heads", "4", "--seq", "600", "--exhaustive")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        self.assertEqual(process.returncode, 1)
        self.assertIn("stopped early", out)
        self.assertEqual(err, "weft: stopped: what was measured is kept, and the same command goes on from there\n")
        self.assertEqual([row["whole"] for row in self.rows()], [False])

    def test_two_tuners(self):
        """Two at once, on one store, over overlapping problems; and two writers as fast as they can."""
        lengths = [20, 40, 80, 160]
        together = [
            subprocess.Popen([WEFT, "tune", "--file", self.problems(order)], env=self.environment, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True) for order in (lengths, lengths[::-1])
        ]  # fmt: skip
        for process in together:
            out, err = process.communicate()
            self.assertEqual((process.returncode, err), (0, ""), out)
        self.assertEqual(len(self.rows()), len(lengths))
        writers = [subprocess.Popen([WRITER, str(n)], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                   for n in (0, 1000000)]  # fmt: skip
        said = 0
        for process in writers:
            first = "".join(process.stdout.readline() for _ in range(30))
            process.send_signal(signal.SIGKILL)
            out, err = process.communicate()
            self.assertEqual(err, "")
            said += len((first + out).split("\n")) - 1
        self.assertGreaterEqual(len(self.rows()) - len(lengths), said)

    def problems(self, lengths):
        handle, path = tempfile.mkstemp(suffix=".csv", dir=self.folder)
        with os.fdopen(handle, "w") as file:
            file.write("subject,heads,seq,head-dim\n" + "".join(f"attention,2,{n},16\n" for n in lengths))
        return path

    def as_nobody(self):
        """Options that run a command without root's right to write anywhere."""
        if os.getuid() != 0:
            return {}
        return {"preexec_fn": lambda: (os.setgroups([]), os.setgid(NOBODY), os.setuid(NOBODY))}

    def test_read_only_folder(self):
        if os.getuid() == 0 and subprocess.run([WEFT, "--version"], capture_output=True, **self.as_nobody()).returncode:
            self.skipTest("nobody may not run the command here")
        self.assertEqual(self.weft(*SMALL).returncode, 0)
        for name in os.listdir(self.folder):
            os.chmod(os.path.join(self.folder, name), 0o444)
        os.chmod(self.folder, 0o555)
        try:
            result = self.weft("--list", "--json", **self.as_nobody())
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(len(json.loads(result.stdout)["rows"]), 1)
            run = subprocess.run([WEFT, "run", *SMALL, "--mode", "stored", "--json"], capture_output=True, text=True,
                                 env=self.environment, **self.as_nobody())  # fmt: skip
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            result = self.weft(*SMALL, "--again", "--seconds", "1", **self.as_nobody())
            self.assertEqual(result.returncode, 1)
            self.assertEqual(result.stdout, "")  # nothing is measured that cannot be kept
            self.assertRegex(result.stderr, r"^weft: .*tuning.db: Permission denied\n$")
            self.assertIn("2 kv heads", self.weft(*SMALL, **self.as_nobody()).stdout)  # what was tuned before is shown
            run = subprocess.run([WEFT, "run", "attention", "--seq", "99", "--mode", "measure", "--json"], capture_output=True,
                                 text=True, env=self.environment, **self.as_nobody())  # fmt: skip
            self.assertEqual((run.returncode, run.stderr), (0, ""))
        finally:
            os.chmod(self.folder, 0o755)
        self.assertEqual(len(self.rows()), 1)

    def test_full_disk(self):
        """Files may not grow beyond what they are: writing fails as on a full disk, and what was there stays."""
        self.assertEqual(self.weft(*SMALL).returncode, 0)

        def full():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as a full disk, writing gives an error and no signal
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        result = self.weft("attention", "--heads", "2", "--seq", "200", "--seconds", "1", preexec_fn=full, restore_signals=False)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"^weft: not stored: the tuning store .*\n$")
        self.assertIn("200 queries", result.stdout)
        self.assertEqual(len(self.rows()), 1)
        self.assertEqual(self.weft("attention", "--heads", "2", "--seq", "200", "--seconds", "1").returncode, 0)
        self.assertEqual(len(self.rows()), 2)

    @unittest.skipUnless(os.getuid() == 0, "only root can mount")
    def test_really_full_disk(self):
        disk = os.path.join(self.folder, "disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", disk], capture_output=True).returncode:
            self.skipTest("no mounting here")
        try:
            self.path = self.environment["WEFT_TUNING_DB"] = os.path.join(disk, "tuning.db")
            self.assertEqual(self.weft(*SMALL).returncode, 0)
            with open(os.path.join(disk, "filler"), "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"x" * 4096)
                except OSError:
                    pass
            result = self.weft("attention", "--heads", "2", "--seq", "200", "--seconds", "1")
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, r"^weft: not stored: the tuning store .*\n$")
            os.unlink(os.path.join(disk, "filler"))
            self.assertEqual(len(self.rows()), 1)
            self.assertEqual(self.weft("attention", "--heads", "2", "--seq", "200", "--seconds", "1").returncode, 0)
            self.assertEqual(len(self.rows()), 2)
        finally:
            subprocess.run(["umount", disk], check=True)

    def test_file_of_zeros(self):
        with open(self.path, "wb") as file:
            file.write(b"\0" * 65536)
        result = self.weft("--list")
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"^weft: the tuning store .* is damaged: it was set aside as .*, and a new one begun\n$")
        (aside,) = [name for name in os.listdir(self.folder) if ".aside-" in name]
        self.assertEqual(os.stat(os.path.join(self.folder, aside))[stat.ST_SIZE], 65536)
        result = self.weft(*SMALL)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_cut_off(self):
        """A store that lost its end, at any point."""
        self.assertEqual(self.weft("--file", self.problems([20, 40, 80])).returncode, 0)
        with open(self.path, "rb") as file:
            whole = file.read()
        draw = generator(3)
        for _ in rounds(8):
            with open(self.path, "wb") as file:
                file.write(whole[: draw.randrange(1, len(whole))])
            result = self.weft("--list", "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertLessEqual(result.stderr.count("\n"), 1)
            self.assertIn(len(json.loads(result.stdout)["rows"]), range(4))

    def test_wrong_schema(self):
        with sqlite3.connect(self.path) as other:
            other.execute("CREATE TABLE tunings(name TEXT)")
            other.execute("INSERT INTO tunings VALUES('of another program')")
        other.close()
        result = self.weft(*SMALL)
        self.assertEqual(result.returncode, 0)
        self.assertIn("is not weft's", result.stderr)
        (aside,) = [name for name in os.listdir(self.folder) if ".aside-" in name and not name.endswith(("-wal", "-shm"))]
        kept = sqlite3.connect(os.path.join(self.folder, aside)).execute("SELECT name FROM tunings").fetchall()
        self.assertEqual(kept, [("of another program",)])
        self.assertEqual(len(self.rows()), 1)

    def test_newer_schema(self):
        self.assertEqual(self.weft(*SMALL).returncode, 0)
        with sqlite3.connect(self.path) as newer:
            newer.execute("PRAGMA user_version = 99")
        newer.close()
        for arguments in (["--list"], [*SMALL, "--again", "--seconds", "1"]):
            result = self.weft(*arguments)
            self.assertNotEqual(result.returncode, 0)
            self.assertIn("was made by a newer weft", result.stderr)
        self.assertEqual([name for name in os.listdir(self.folder) if ".aside-" in name], [])


if __name__ == "__main__":
    unittest.main(verbosity=1)
