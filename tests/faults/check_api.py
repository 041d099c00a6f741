# SPDX-License-Identifier: Apache-2.0
"""Every function that the headers export is a case of the tests of faults, or is named here with the test that has it.

    check_api.py SOURCE_TREE
"""

import pathlib
import re
import sys

# What needs a GPU, other ranks, or a terminal: their own tests let the fake driver, CUPTI, NVML, NCCL and transports fail.
ELSEWHERE = {
    "weft_study_": "tests/counters, tests/faults/test_driver_faults.c",
    "weft_probe_gpu": "tests/cuda/test_cli_cuda.py",
    "weft_nccl_": "tests/dist",
    "weft_mpi_": "tests/dist",
    "weft_xla_": "tests/xla",
    "weft_view_play": "tests/report",
}

tree = pathlib.Path(sys.argv[1])
cases = "".join(path.read_text() for path in (tree / "tests/faults").glob("api*.c"))
exported = set()
for header in (tree / "include/weft").glob("*.h"):
    exported |= set(re.findall(r"^WEFT_API [^;(]*?\b(weft_\w+)\(", header.read_text(), re.MULTILINE))
missing = sorted(name for name in exported if not re.search(rf"\b{name}\b", cases) and not name.startswith(tuple(ELSEWHERE)))
print(f"{len(exported)} functions, {len([name for name in exported if name in cases])} of them under faults")
if not exported or missing:
    sys.exit(f"without a case in tests/faults/api*.c: {', '.join(missing)}")
