# SPDX-License-Identifier: Apache-2.0
"""Timing several libraries in one process, in turns: what the Python benchmarks share."""

import math
import os
import random
import statistics
import sys
import time
from functools import partial

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def import_weft(library=None):
    """The package of this tree, with a given library; without one, the installed package."""
    if library:
        os.environ["WEFT_LIBRARY"] = os.path.abspath(library)
        sys.path.insert(0, os.path.join(ROOT, "python"))
    import weft

    return weft


def interleave(calls, seconds):
    """Times of each call in seconds, run in turn for about `seconds`, at least 3 and at most 25 times.

    Libraries have threads of their own, which go on spinning for a while after their work and would disturb the next library.
    So each call is timed after a pause that lets the others' threads fall asleep, and calls that wake its own: for 20 ms, the
    time that a system may take to spread threads over idle cores again.
    """
    times = [[] for _ in calls]
    for call in calls:
        call()
    begin = time.perf_counter()
    while len(times[0]) < 3 or (len(times[0]) < 25 and time.perf_counter() - begin < seconds):
        for call, mine in zip(calls, times):
            time.sleep(0.03)
            wake = time.perf_counter()
            call()
            while time.perf_counter() - wake < 0.02:
                call()
            start = time.perf_counter()
            call()
            mine.append(time.perf_counter() - start)
    return times


def seconds_on_gpu(call, times=1):
    """What a call takes, by events around so many of them on torch's current stream."""
    import torch

    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(times):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / times


def in_random_turns(samples, seconds, least, most):
    """What each of `samples` returns, called in turn for about `seconds`, in another order every round: nobody always comes behind the same
    one, whose clock it would have."""
    times = [[] for _ in samples]
    begin = time.perf_counter()
    while len(times[0]) < least or (len(times[0]) < most and time.perf_counter() - begin < seconds):
        for i in random.sample(range(len(samples)), len(samples)):
            times[i].append(samples[i]())
    return times


def interleave_cuda(calls, seconds):
    """As interleave(), on the GPU: times between events on torch's current stream.

    The stream is kept busy while the calls are put on it, so that the time of the host is not counted, and a short call is
    repeated until it takes about a millisecond.
    """
    import torch

    def elapsed(call, times):
        torch.cuda._sleep(max(1_000_000, 100_000 * times))  # 50 us a call: one from Python takes 10 to 40
        return seconds_on_gpu(call, times)

    for call in calls:
        call()
    repeats = [max(1, min(20, math.ceil(1e-3 / max(elapsed(call, 3), 1e-6)))) for call in calls]
    return in_random_turns([partial(elapsed, *each) for each in zip(calls, repeats)], seconds, 5, 101)


def interleave_settled(calls, seconds):
    """As interleave_cuda(), in turns of a quarter of a second, of which the last fifth is timed: by then the clock is what the card's power
    allows this call, not what it allowed the one before. A call that takes less than the host needs for it is timed with that."""

    def elapsed(call, once):
        seconds_on_gpu(call, math.ceil(0.2 / once))
        return seconds_on_gpu(call, math.ceil(0.05 / once))

    samples = [partial(elapsed, call, max(seconds_on_gpu(call, 5), 1e-6)) for call in calls]
    return in_random_turns(samples, seconds, 3, 25)


def interleave_graphs(calls, seconds):
    """As interleave_cuda(), the repetitions of a call captured in a CUDA graph: what its kernels take without the host, which a call of
    a few microseconds would otherwise wait for."""
    import torch

    def capture(call, count):
        with torch.cuda.stream(torch.cuda.Stream()):  # what is made at the first call is not for a capture
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                call()
        return graph

    def elapsed(graph, count):
        return seconds_on_gpu(graph.replay) / count

    counts = [max(1, min(40, math.ceil(1e-3 / max(elapsed(capture(call, 3), 3), 1e-6)))) for call in calls]
    return in_random_turns([partial(elapsed, capture(*each), each[1]) for each in zip(calls, counts)], seconds, 5, 101)


def medians(times):
    return [statistics.median(mine) for mine in times]


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def largest_difference(x, y):
    """The largest difference of two tensors, as a part of the largest value of the second."""
    return ((x.float() - y.float()).abs().max() / y.float().abs().max()).item()
