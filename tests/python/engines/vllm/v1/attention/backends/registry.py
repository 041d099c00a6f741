# SPDX-License-Identifier: Apache-2.0
import enum
import importlib

_OVERRIDES = {}


class AttentionBackendEnum(enum.Enum):
    FLASH_ATTN = "vllm.v1.attention.backends.flash_attn.FlashAttentionBackend"
    CUSTOM = None

    def is_overridden(self):
        return self in _OVERRIDES

    def get_class(self):
        module, _, name = _OVERRIDES.get(self, self.value).rpartition(".")
        return getattr(importlib.import_module(module), name)


def register_backend(backend, class_path=None, is_mamba=False):
    _OVERRIDES[backend] = class_path
    return lambda x: x
