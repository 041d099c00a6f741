# SPDX-License-Identifier: Apache-2.0
"""Commands that are killed (SIGKILL) at a random call of the system, and two versions of weft on one store.

    test_kills.py PATH_TO_WEFT PATH_TO_FAULTS

What was there is there, whole: a file is the one before or the new one, the store holds every row that it held and every one
that was reported. The same command works afterwards. No clock says when: the process kills itself at its n-th allocation,
operation on a file or call of SQLite.

WEFT_TEST_ROUNDS says, in per cent of the usual number (20), how many are killed.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import unittest

WEFT, FAULTS = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
SEED = int(os.environ.get("WEFT_TEST_SEED") or 0)
ROUNDS = int(os.environ.get("WEFT_TEST_ROUNDS") or 100)
ONE = ["--k", "32", "--order", "raster-n", "--sweep", "forward", "--dispatch", "static", "--workers", "1", "--seconds", "0.001"]
PROBLEM = ["--m", "256", "--n", "256", "--k", "128", "--machine", "h100"]

OLDER = """
    PRAGMA application_id = 0x57454654; PRAGMA user_version = 1;
    CREATE TABLE tunings(device TEXT NOT NULL, driver INTEGER NOT NULL, build TEXT NOT NULL, problem TEXT NOT NULL,
        schedule TEXT NOT NULL, seconds REAL NOT NULL, date INTEGER NOT NULL,
        PRIMARY KEY(device, driver, build, problem)) WITHOUT ROWID;
"""
OLDER_ROW = "INSERT INTO tunings VALUES('an older one', 0, '0.1.0', ?, 'tile_m=64', 1, 1)"


class Kills(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.path = os.path.join(self.folder, "tuning.db")
        self.out = os.path.join(self.folder, "OUT")

    def weft(self, *arguments, **variables):
        environment = dict(os.environ, WEFT_TUNING_DB=self.path, OMP_NUM_THREADS="1", HOME=self.folder, **variables)
        return subprocess.run([WEFT, *arguments], capture_output=True, text=True, env=environment, cwd=self.folder)

    def count(self, *arguments):
        """How many calls of the system a command makes."""
        count = os.path.join(self.folder, "count")
        result = self.weft(*arguments, LD_PRELOAD=FAULTS, FAULTS="memory files sqlite", FAULTS_COUNT=count)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        with open(count) as file:
            return int(file.read().split()[0])

    def kill(self, draw, calls, *arguments):
        """A run that is killed, or, past its last call, is not."""
        result = self.weft(*arguments, LD_PRELOAD=FAULTS, FAULTS="memory files sqlite", FAULTS_AT=str(draw.randrange(1, calls + 1)),
                           FAULTS_ERROR="kill")  # fmt: skip
        self.assertIn(result.returncode, (0, -signal.SIGKILL), result)
        return result.returncode != 0

    def written(self):
        """The file, without how long it took to make it."""
        with open(self.out, "rb") as file:
            return re.sub(rb'"elapsed_seconds":[-+.e0-9]+', b"", file.read())

    def writes(self, share, *arguments):
        """Kills a command that writes OUT: that is as before, or new."""
        draw, killed = random.Random(f"{SEED} {arguments}"), 0
        calls = self.count(*arguments)
        right = self.written()
        for _ in range(max(1, share * ROUNDS // 100)):
            with open(self.out, "wb") as file:
                file.write(b"before")
            killed += self.kill(draw, calls, *arguments)
            self.assertIn(self.written(), (b"before", right))
            self.assertEqual(self.weft(*arguments).returncode, 0)
            self.assertEqual(self.written(), right)
        self.assertGreater(killed, 0)

    def test_pages(self):
        self.writes(5, "view", "gemm", *PROBLEM, "-o", "OUT")

    def test_machine_files(self):
        self.writes(5, "machines", "h100", "-o", "OUT")

    def rows(self):
        result = self.weft("tune", "--list", "--json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        with contextlib.closing(sqlite3.connect(self.path)) as store:
            self.assertEqual(store.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
            return {row[0] for row in store.execute("SELECT problem FROM tunings")}

    def test_tuning(self):
        """Tuners are killed, each at another problem; those that reported a row have stored it."""
        draw, killed, stored = random.Random(f"{SEED} tuning"), 0, set()
        calls = self.count("tune", "gemm", "--m", "8", "--n", "32", *ONE)
        stored = self.rows()
        for i in range(max(1, 10 * ROUNDS // 100)):
            problem = ["tune", "gemm", "--m", str(9 + i), "--n", "32", *ONE]
            killed += self.kill(draw, calls, *problem)
            there = self.rows()
            self.assertLessEqual(stored, there)
            self.assertLessEqual(len(there - stored), 1)
            result = self.weft(*problem)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            stored = self.rows()
            self.assertLessEqual(there, stored)
        self.assertGreater(killed, 0)

    # ---- two versions ----

    def make_older(self, rows):
        with contextlib.closing(sqlite3.connect(self.path)) as store:
            store.executescript(OLDER)
            store.executemany(OLDER_ROW, [(f"number {i}",) for i in range(rows)])
            store.commit()

    def test_killed_while_it_migrates(self):
        draw, killed = random.Random(f"{SEED} migrating"), 0
        self.make_older(30)
        with open(self.path, "rb") as file:
            older = file.read()
        calls = self.count("tune", "--list")
        for _ in range(max(1, 5 * ROUNDS // 100)):
            for name in os.listdir(self.folder):
                os.remove(os.path.join(self.folder, name)) if name.startswith("tuning.db") else None
            with open(self.path, "wb") as file:
                file.write(older)
            killed += self.kill(draw, calls, "tune", "--list")
            self.assertEqual(len(self.rows()), 30)
        self.assertGreater(killed, 0)

    def test_an_older_weft_that_is_still_running(self):
        """It has the store open when a newer one brings it up to date: it can write no more, and spoils nothing."""
        self.make_older(30)
        with contextlib.closing(sqlite3.connect(self.path)) as older:
            older.execute(OLDER_ROW, ("number 30",))
            older.commit()
            self.assertEqual(len(self.rows()), 31)
            with self.assertRaises(sqlite3.OperationalError):
                older.execute(OLDER_ROW, ("number 31",))
        self.assertEqual(len(self.rows()), 31)

    def test_two_that_migrate_at_once(self):
        self.make_older(30)
        environment = dict(os.environ, WEFT_TUNING_DB=self.path)
        both = [subprocess.Popen([WEFT, "tune", "--list", "--json"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for _ in range(2)]  # fmt: skip
        answers = [process.communicate() for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0], answers)
        self.assertEqual(answers[0][0], answers[1][0])
        self.assertEqual(len(self.rows()), 30)


if __name__ == "__main__":
    unittest.main(verbosity=1)
