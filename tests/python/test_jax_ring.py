# SPDX-License-Identifier: Apache-2.0
"""Context parallelism in JAX, on devices of the CPU; jax_ring_devices.py is what runs."""

import os
import subprocess
import sys

import pytest

jax = pytest.importorskip("jax")


@pytest.mark.skipif(not hasattr(jax, "shard_map"), reason="jax.shard_map came with JAX 0.6")
def test_ring():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jax_ring_devices.py")
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stdout.endswith("all\n"), ran.stdout + ran.stderr
