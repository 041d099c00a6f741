# SPDX-License-Identifier: Apache-2.0
"""The same examples on every run, so that a failure comes back; WEFT_RANDOM=1 draws others each time."""

import os

from hypothesis import settings

settings.register_profile("weft", deadline=None, database=None, derandomize=not os.environ.get("WEFT_RANDOM"))
settings.load_profile("weft")
