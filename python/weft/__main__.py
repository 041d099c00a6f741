# SPDX-License-Identifier: Apache-2.0
"""The command `weft`, also as `python -m weft`: the compiled one, which the wheel brings along."""

import os
import sys

from . import _c


def main() -> None:
    command = _c.path_of(os.path.join("bin", "weft"))
    if not os.path.exists(command):
        sys.exit(f"weft: there is no command at {command}: run `pip install .`")
    os.execv(command, ["weft", *sys.argv[1:]])


if __name__ == "__main__":
    main()
