# SPDX-License-Identifier: Apache-2.0
"""docs/adding-an-order.md works: its file and its two lines make an order that passes the tests of every order."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
with open(os.path.join(ROOT, "docs", "adding-an-order.md"), encoding="utf-8") as file:
    BLOCKS = re.findall(r"^```c\n(.*?)^```", file.read(), re.MULTILINE | re.DOTALL)


class AddingAnOrder(unittest.TestCase):
    def test_follow_the_page(self):
        header, include, row = BLOCKS
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(os.path.join(ROOT, "include"), os.path.join(folder, "include"))
            with open(os.path.join(folder, "include/weft/order/diagonal.h"), "w") as file:
                file.write(header)
            path = os.path.join(folder, "include/weft/orders.def")
            with open(path) as file:
                text = file.read()
            text = text.replace('#include "order/group.h"\n', include + '#include "order/group.h"\n')
            text = text.replace("\nWEFT_ORDER(BLOCK_FIRST,", row + "\nWEFT_ORDER(BLOCK_FIRST,", 1)
            self.assertIn(include, text)
            self.assertIn(row, text)
            with open(path, "w") as file:
                file.write(text)
            for test in ["test_order", "test_walk"]:
                binary = os.path.join(folder, test)
                subprocess.run(
                    ["gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", f"-I{folder}/include", f"-I{ROOT}/src",
                     f"{ROOT}/tests/order/{test}.c", f"{ROOT}/src/order/names.c", f"{ROOT}/src/base/names.c", "-lcmocka", "-o", binary],
                    check=True,
                )  # fmt: skip
                subprocess.run([binary], check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    unittest.main()
