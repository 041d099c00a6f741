# SPDX-License-Identifier: Apache-2.0
ATTENTION_BACKENDS = {}


def register_attention_backend(name):
    def decorator(create):
        ATTENTION_BACKENDS[name] = create
        return create

    return decorator
