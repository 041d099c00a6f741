# SPDX-License-Identifier: Apache-2.0
"""Kernel profiles: what the simulator must know of a kernel beside its tiles, each number with where it comes from."""

from __future__ import annotations

import os
from typing import List, Optional, Union

from . import _c
from .sheets import Sheet


class Profile(Sheet):
    """A kernel's profile: a built-in one by name ("flash-attention-3"), or a file by path (anything with a "/" or ending in
    ".ini").

    Its numbers are attributes: profile.stages, profile.spread_tile, ... (include/weft/profile.h has them all, with their units).

    >>> weft.Profile("flash-attention-3").stages
    2
    """

    _noun, _structure = "profile", _c.Profile

    def __repr__(self) -> str:
        return f"<weft.Profile {self.name}: {self.title}>"


ProfileLike = Union[Profile, str, "os.PathLike[str]", None]


def of(profile: ProfileLike) -> Optional[Profile]:
    """A Profile from what a caller may give: one, a name, a path, or None."""
    return profile if profile is None or isinstance(profile, Profile) else Profile(profile)


def profiles() -> List[Profile]:
    """The built-in profiles.

    >>> "generic" in [profile.name for profile in weft.profiles()]
    True
    """
    return [Profile(name) for name in Profile.names()]
