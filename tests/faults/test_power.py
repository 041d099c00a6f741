# SPDX-License-Identifier: Apache-2.0
"""The tuning store when the power goes: what a writer did is logged, and disks are made of it as they may be found then.

    test_power.py PATH_TO_WEFT PATH_TO_STORE_WRITER PATH_TO_FAULTS

A disk holds all that was written to a file before its last flush, and of what was written to it since any part, in any order,
a sector of 512 bytes at a time. Names (new files, renamed, removed) come to the disk in their order, and those of a file that
is flushed are there, as with ext4, XFS and Btrfs. Every row that the writer had reported is in the store, which is whole and
was not set aside; so with a store of an older weft that is brought up to date.

WEFT_TEST_ROUNDS says, in per cent of the usual number, how many disks are tried.
"""

import contextlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

WEFT, WRITER, FAULTS = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))
SEED = int(os.environ.get("WEFT_TEST_SEED") or 0)
ROUNDS = int(os.environ.get("WEFT_TEST_ROUNDS") or 100)
SECTOR = 512
O_CREAT, O_TRUNC = 0o100, 0o1000


def read_log(path):
    """(what, path, second word, bytes) of each line: see log.c."""
    with open(path, "rb") as file:
        while line := file.readline():
            what, name, second, length = line.decode().split()
            yield what, name, second, file.read(int(length))


class Disk:
    """Files: what is safe, and what was written since the last flush."""

    def __init__(self, files):
        self.safe = dict(files)  # by name
        self.recent = {name: [] for name in files}
        self.names = set(files)  # that are on the disk for good

    def take(self, what, name, second, data):
        if what == "open":
            if name not in self.safe and int(second) & O_CREAT:
                self.safe[name], self.recent[name] = b"", []
            elif int(second) & O_TRUNC:
                self.recent[name].append(("size", 0, b""))
        elif what == "write" and name in self.recent:
            offset = int(second)
            while data:
                length = SECTOR - offset % SECTOR
                self.recent[name].append(("write", offset, data[:length]))
                offset, data = offset + len(data[:length]), data[length:]
        elif what == "size" and name in self.recent:
            self.recent[name].append(("size", int(second), b""))
        elif what == "sync" and name in self.recent:
            self.safe[name] = self.apply(self.safe[name], self.recent[name])
            self.recent[name] = []
            self.names.add(name)
        elif what == "rename" and name in self.safe:
            self.safe[second], self.recent[second] = self.safe.pop(name), self.recent.pop(name)
        elif what == "unlink":
            self.safe.pop(name, None)
            self.recent.pop(name, None)

    @staticmethod
    def apply(text, changes):
        text = bytearray(text)
        for what, at, data in changes:
            if what == "size":
                text = text[:at] + bytes(max(0, at - len(text)))
            else:
                text += bytes(max(0, at - len(text)))
                text[at : at + len(data)] = data
        return bytes(text)

    def found(self, draw):
        """The files as one power loss may leave them."""
        for name, safe in self.safe.items():
            changes = self.recent[name]
            kind = draw.randrange(4)
            if kind == 0:  # nothing more came
                changes = []
            elif kind == 1:  # the first of it
                changes = changes[: draw.randrange(len(changes) + 1)]
            elif kind == 2:  # any of it
                changes = [change for change in changes if draw.random() < 0.5]
            else:  # all of it, and the last half done: in another order
                changes = draw.sample(changes, draw.randrange(len(changes) + 1))
            if changes or safe or name in self.names or draw.random() < 0.5:
                yield name, self.apply(safe, changes)


class Power(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.path = os.path.join(self.folder, "tuning.db")

    def files(self):
        found = {}
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            if name.startswith("tuning.db"):
                with open(path, "rb") as file:
                    found[path] = file.read()
        return found

    def record(self, rows):
        """What a writer of so many rows did: the files before, and its log."""
        before, log = self.files(), os.path.join(self.folder, "log")
        environment = dict(os.environ, WEFT_TUNING_DB=self.path, LD_PRELOAD=FAULTS, FAULTS_LOG=log)
        with subprocess.Popen([WRITER, "0"], stdout=subprocess.PIPE, text=True, env=environment) as process:
            for _ in range(rows):
                self.assertTrue(process.stdout.readline())
            process.kill()
        return before, list(read_log(log))

    def check(self, before, log, disks, older_rows):
        draw, lost, most = random.Random(f"{SEED} {older_rows}"), 0, 0
        for _ in range(max(1, disks * ROUNDS // 100)):
            end = draw.randrange(1, len(log) + 1)
            disk, reported = Disk(before), 0
            for what, name, second, data in log[:end]:
                if name == "-":
                    reported += data.count(b"\n")
                elif not name.endswith(("-shm", ".lock")):
                    disk.take(what, name, second, data)
            most = max(most, reported)
            lost += sum(len(changes) for changes in disk.recent.values())
            with tempfile.TemporaryDirectory() as place:
                for name, text in disk.found(draw):
                    with open(os.path.join(place, os.path.basename(name)), "wb") as file:
                        file.write(text)
                path = os.path.join(place, "tuning.db")
                result = subprocess.run([WEFT, "tune", "--list", "--json"], capture_output=True, text=True,
                                        env=dict(os.environ, WEFT_TUNING_DB=path))  # fmt: skip
                where = f"after {end} of {len(log)} operations, {reported} rows reported: {result}"
                self.assertEqual((result.returncode, result.stderr), (0, ""), where)
                there = {row["date"] for row in json.loads(result.stdout)["rows"] if row["device"] == "a device"}
                older = {row["date"] for row in json.loads(result.stdout)["rows"] if row["device"] == "an older one"}
                self.assertLessEqual(set(range(reported)), there, where)
                self.assertLessEqual(len(there), reported + 1, where)
                if os.path.exists(path) or older_rows:
                    self.assertEqual(len(older), older_rows, where)
                    with contextlib.closing(sqlite3.connect(path)) as store:
                        self.assertEqual(store.execute("PRAGMA integrity_check").fetchall(), [("ok",)], where)
        self.assertGreater(lost, 0, "nothing was ever in flight")
        self.assertGreater(most, 0, "nothing was ever reported")

    def test_writer(self):
        self.check(*self.record(12), disks=60, older_rows=0)

    def test_older_store(self):
        """A store of schema 1, as the first weft made it."""
        with contextlib.closing(sqlite3.connect(self.path)) as store:
            store.executescript(
                "PRAGMA application_id = 0x57454654; PRAGMA user_version = 1;"
                "CREATE TABLE tunings(device TEXT NOT NULL, driver INTEGER NOT NULL, build TEXT NOT NULL, problem TEXT NOT NULL,"
                "schedule TEXT NOT NULL, seconds REAL NOT NULL, date INTEGER NOT NULL,"
                "PRIMARY KEY(device, driver, build, problem)) WITHOUT ROWID;"
            )
            store.executemany("INSERT INTO tunings VALUES('an older one', 0, '0.1.0', ?, 'tile_m=64', 1, ?)", [(f"number {i}", i) for i in range(40)])
            store.commit()
        self.check(*self.record(8), disks=60, older_rows=40)


if __name__ == "__main__":
    unittest.main(verbosity=1)
