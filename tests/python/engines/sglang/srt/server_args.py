# SPDX-License-Identifier: Apache-2.0
ATTENTION_BACKEND_CHOICES = ["triton", "torch_native"]


def add_attention_backend_choices(choices):
    ATTENTION_BACKEND_CHOICES.extend(choices)
