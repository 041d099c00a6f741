# SPDX-License-Identifier: Apache-2.0
"""Serving engines that weft plugs into. They call these functions by themselves: pyproject.toml names them as plugins."""

from __future__ import annotations


def register_with_vllm() -> None:
    """Makes weft vLLM's backend CUSTOM: `--attention-backend CUSTOM`. Another package that is already CUSTOM stays it."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    if not AttentionBackendEnum.CUSTOM.is_overridden():
        register_backend(AttentionBackendEnum.CUSTOM, "weft.vllm.WeftBackend")


def register_with_sglang() -> None:
    """Makes SGLang's `--attention-backend weft` known."""
    from . import sglang  # noqa: F401
