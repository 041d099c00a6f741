"""What a library of version 0.1 cannot do with a backward attention is said. Goes with weft/_adapter.py."""

import pytest
import weft

BACKWARD = weft.AttentionBackward(64, 16)


def test_refused():
    with pytest.raises(weft.Unsupported, match="a backward attention runs on the CPU only"):
        weft.plan(BACKWARD, device="cuda")
    with pytest.raises(weft.Unsupported, match="a backward attention runs on the CPU only, and is not tuned"):
        weft.plan(BACKWARD, mode="measure")
    with pytest.raises(weft.Unsupported, match="a backward attention is not simulated"):
        weft.simulate(BACKWARD, None, "gb10")
    with pytest.raises(weft.Unsupported, match="a backward attention is not simulated"):
        weft.curve(BACKWARD, None, "gb10", count=4)
    with pytest.raises(weft.Unsupported, match="a backward attention is not tuned"):
        weft.tune(BACKWARD, seconds=0.1)
