# SPDX-License-Identifier: Apache-2.0
"""The part of vLLM's interface that weft.vllm meets, so that tests can drive it without vLLM: names and signatures, and no more."""
