# SPDX-License-Identifier: Apache-2.0
"""Plans, schedules, machines, the simulator and their pictures."""

import dataclasses
import xml.etree.ElementTree as xml

import pytest
import weft

ATTENTION = weft.Attention(seq=4096, heads=4, head_dim=64, dtype="fp16")


def test_every_order_visits_every_tile_once():
    for order in weft.orders():
        fields = {"order": order.name, **dict.fromkeys(order.parameters, 3)}
        problem, tile = (weft.Gemm(11, 7, 5), (1, 1, 1)) if order.subject == "gemm" else (weft.Attention(7, 8, 2, 6), (1, 1))
        plan = weft.plan(problem, {**fields, "tile": tile})
        batches, rows, cols = plan.grid
        tiles = plan.tiles()
        everything = {(b, r, c) for b in range(batches) for r in range(rows) for c in range(cols)}
        assert len(tiles) == len(everything) and set(tiles) == everything
        assert plan.tiles(3) == tiles[:3]
        assert plan.schedule.order == order.name


def test_lists():
    assert {order.name for order in weft.orders("gemm")} >= {"hilbert", "group"}
    assert [order.subject for order in weft.orders("attention")] == ["attention"] * len(weft.orders("attention"))
    assert "sawtooth" in weft.sweeps() and "static" in weft.dispatches()
    with pytest.raises(weft.Invalid, match="subject 'cake'"):
        weft.orders("cake")


def test_a_plan_describes_itself():
    plan = weft.plan(ATTENTION, weft.Schedule(sweep="sawtooth", tile=(64, 64)), "gb10")
    assert plan.json["schedule"]["sweep"] == "sawtooth" and "sawtooth" in plan.text
    assert plan.schedule.tile == (64, 64) and plan.schedule.dispatch in weft.dispatches()
    again = weft.plan(ATTENTION, plan.schedule, "gb10")
    assert again.schedule == plan.schedule


def test_plans_for_no_device_and_no_problem():
    with pytest.raises(weft.Invalid, match="device 'tpu'"):
        weft.plan(ATTENTION, device="tpu")
    with pytest.raises(weft.Invalid, match="problem is a str"):
        weft.plan("attention")
    with pytest.raises(weft.Invalid, match="seq 4.5 is not a whole number"):
        weft.plan(weft.Attention(seq=4.5))


def test_simulate_as_published():
    """GB10, one launch of 32K queries, tiles of 80 x 80: the L2 sectors that a profiler counted."""
    problem = weft.Attention(seq=32768, head_dim=64, dtype="fp16")
    fields = {"tile": (80, 80), "dispatch": "grid", "sweep": "forward"}
    assert weft.simulate(problem, fields, "gb10").total.sectors_from_sm == 107741184


def test_simulate_and_compare():
    problem = weft.Attention(seq=131072, head_dim=64, dtype="fp16")
    sweeps = {sweep: weft.Schedule(tile=(64, 64), sweep=sweep) for sweep in ("forward", "sawtooth")}
    comparison = weft.compare(problem, sweeps, "gb10", limit=200000)
    forward, sawtooth = (row[1] for row in comparison.rows)
    assert sawtooth.total.misses < 0.7 * forward.total.misses
    assert forward.total.sectors == forward.total.hits + forward.total.misses
    assert 0 < forward.simulated <= 1 and len(forward.domains) == weft.Machine("gb10").domains
    assert comparison.best[0] in sweeps and "sawtooth" in str(comparison)
    with pytest.raises(weft.Invalid, match="no schedule"):
        weft.compare(problem, [], "gb10")
    with pytest.raises(weft.Invalid, match="seed -1 is negative"):
        weft.simulate(ATTENTION, None, "gb10", seed=-1)


def test_what_bounds_a_prediction():
    """As the machine's numbers say; slower DRAM or slower steps change it."""
    gb10 = weft.Machine("gb10")
    attention = weft.simulate(weft.Attention(seq=32768, dtype="fp16"), {"tile": (64, 64)}, gb10)
    assert attention.bound == "compute" and 0.9 * attention.seconds <= attention.bounds["compute"] <= attention.seconds
    starved = weft.simulate(weft.Attention(seq=32768, dtype="fp16"), {"tile": (64, 64)}, gb10.replace(dram_bandwidth=gb10.dram_bandwidth / 200))
    assert starved.bound == "DRAM"
    assert starved.bounds["DRAM"] == (starved.dram_read_bytes + starved.dram_write_bytes) / (gb10.dram_bandwidth / 200)
    assert starved.bounds["compute"] == attention.bounds["compute"]
    slow = weft.simulate(weft.Attention(seq=32768, dtype="fp16"), {"tile": (64, 64)}, gb10.replace(l2_bandwidth=gb10.l2_bandwidth / 50))
    assert slow.bound == "L2" and slow.bounds["L2"] >= slow.sectors * gb10.l2_sector / (gb10.l2_bandwidth / 50)
    small = weft.simulate(weft.Gemm(64, 64, 64, "bf16"), None, "h100")
    assert small.bound == "latency" and max(small.bounds.values()) < small.seconds
    trace = weft.simulate_trace(0, range(8), "x", range(8), 128, machine="gb10")
    assert trace.bound == "" and not trace.bounds


def test_zero_is_none_and_none_is_the_profile_s():
    def counted(**options):
        return weft.simulate(ATTENTION, {"tile": (64, 64), "dispatch": "static"}, "gb10", **options).seconds

    profile = weft.Profile(weft.Machine("gb10").attention_profile).replace(spread_step=0.02, spread_tile=0, spread_load=0, stages=2)
    assert counted(profile=profile, drift=0.02) == counted(profile=profile) != counted(profile=profile, drift=0)
    assert counted(drift=0, seed=1) == counted(drift=0, seed=2)
    assert counted(profile=profile, stages=0) != counted(profile=profile, stages=2) == counted(profile=profile)


def test_profiles():
    names = [profile.name for profile in weft.profiles()]
    assert "generic" in names and names == sorted(names) and weft.Machine("h200").gemm_profile in names
    ran = weft.simulate(ATTENTION, None, "gb10", profile="generic")
    assert ran.profile == "generic" and weft.simulate(ATTENTION, None, "gb10").profile == weft.Machine("gb10").attention_profile
    assert all(value.source for value in weft.Profile("study").values() if value.section != "profile")
    with pytest.raises(weft.NotFound, match='no profile "none"'):
        weft.simulate(ATTENTION, None, "gb10", profile="none")
    with pytest.raises(weft.Invalid, match=r"profile: \[request\] stages 17 is not 0 to 16"):
        weft.simulate(ATTENTION, None, "gb10", profile=weft.Profile("study").replace(stages=17))


def test_a_curve_falls():
    points = weft.curve(weft.Gemm(8192, 8192, 1024, "bf16"), {"order": "raster-n"}, "h100", count=8)
    misses = [misses for _, misses in points]
    assert len(points) == 8 and misses == sorted(misses, reverse=True) and misses[0] > misses[-1]


def test_machines():
    h200 = weft.Machine("h200")
    assert (h200.workers, h200.domains, h200.l2_bytes) == (132, 2, 30 << 20)
    assert any(value.key == "domains" and "measured" in value.source for value in h200.values())
    assert "h200" in weft.Machine.names() and weft.Machine.host().workers >= 1
    larger = h200.replace(l2_bytes=60 << 20)
    assert (larger.l2_bytes, h200.l2_bytes) == (60 << 20, 30 << 20)
    with pytest.raises(weft.Invalid, match="no number 'cores'"):
        h200.replace(cores=1)
    with pytest.raises(AttributeError, match="no 'cores'"):
        h200.cores
    with pytest.raises(weft.Invalid, match="mine"):
        weft.Machine.parse("[workers]\ncount = many\n", "mine")


def test_pictures():
    plan = weft.plan(weft.Gemm(1408, 2304, 64), {"order": "hilbert", "tile": (128, 128, 64)})
    figure = xml.fromstring(plan._repr_html_().replace("<br>", "<br/>"))
    svg = figure.find("{http://www.w3.org/2000/svg}svg")
    assert len(svg.findall("{http://www.w3.org/2000/svg}rect")) == 11 * 18
    path = svg.find("{http://www.w3.org/2000/svg}path").get("d")
    assert path.count("L") == 11 * 18 - 1 and path.count("M") == 1
    numbers = [int(text.text) for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert numbers == list(range(11 * 18))
    for order in weft.orders():
        assert "<svg" in weft.Schedule(order=order.name)._repr_html_()
    assert "chosen" in weft.Schedule()._repr_html_()
    large = weft.plan(weft.Attention(seq=1 << 16, heads=200, batch=2))
    assert "are drawn; the first of 2 batches" in large._repr_html_() and len(large._repr_html_()) < 2_000_000
    table = xml.fromstring(weft.compare(ATTENTION, {"a<b": None, "c": {"sweep": "pair"}}, "gb10")._repr_html_())
    assert [row[0].find("b").text if row[0].find("b") is not None else row[0].text for row in table.find("tbody")] == ["a<b", "c"]


def test_a_cache_in_pages():
    """Sequences of unlike lengths; pages that all of them share are read once."""
    used = (8192, 100, 5000)
    cache = weft.Attention(seq=1, kv_seq=8192, batch=3, heads=8, kv_heads=2, head_dim=128, dtype="bf16", page=16, kv_used=used)
    row = 2 * 2 * 128 * 2 // 32  # sectors of K and V of a key
    read = weft.simulate(cache, None, "gb10").compulsory_misses
    assert read == sum(used) * row + 2 * 3 * 8 * 128 * 2 // 32
    own = [[512 * i + page for page in range(512)] for i in range(3)]
    assert weft.simulate(cache, None, "gb10", page_table=own).compulsory_misses == read
    shared = [own[0], own[1], own[0][:256] + own[2][256:]]
    assert weft.simulate(cache, None, "gb10", page_table=shared).compulsory_misses == read - 4096 * row
    appended = dataclasses.replace(cache, append=1, kv_used=(8191, 100, 5000))
    assert weft.simulate(appended, None, "gb10").compulsory_misses == read + (2 + 3 * 2) * row
    with pytest.raises(weft.Invalid, match="page_table has not 512 for each of 3 sequences"):
        weft.simulate(cache, None, "gb10", page_table=own[:2])
    with pytest.raises(weft.Invalid, match="kv_used has not 1 for each of 3 sequences"):
        weft.plan(dataclasses.replace(cache, kv_used=(1, 2)))
    with pytest.raises(weft.Invalid, match="page_table is only for an attention with pages"):
        weft.simulate(ATTENTION, None, "gb10", page_table=own)
    with pytest.raises(weft.Invalid, match="cache.table of sequence 0, entry 0 is -1, and there are 1536 pages"):
        weft.simulate(cache, None, "gb10", page_table=[[-1] * 512] * 3)
