# SPDX-License-Identifier: Apache-2.0
"""A command whose standard error is a terminal."""

import os
import pty
import subprocess


def on_terminal(command, **environment):
    """Exit code, and what appears on a terminal that is standard error."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env={**os.environ, **environment})
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # how Linux says that the other end is closed
            part = b""
        if not part:
            break
        shown += part
    os.close(ours)
    return process.wait(), shown.decode()
