# SPDX-License-Identifier: Apache-2.0
"""The part of SGLang's interface that weft.sglang meets, so that tests can drive it without SGLang: names and signatures, and no more."""
