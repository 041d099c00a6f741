# SPDX-License-Identifier: Apache-2.0
"""weft.sweep(): tables and plots; and what a prompt and a notebook show of results."""

import csv
import io
import sys
import types
import xml.etree.ElementTree as xml

import pytest
import weft

SIZES = [weft.Gemm(n, n, 256, "bf16") for n in (512, 1024, 4096)]
SVG = "{http://www.w3.org/2000/svg}"


def test_rows_are_simulations():
    told = []
    machines = {"half": weft.Machine("h100").replace(l2_bytes=10 << 20), "whole": "h100"}
    table = weft.sweep(SIZES, [None, {"order": "hilbert"}], machines, seed=3, progress=lambda *of: told.append(of))
    assert table.axes == ("m", "n", "machine", "schedule") and told == [(i, 12) for i in range(1, 13)]
    assert [row["m"] for row in table.rows] == [512] * 4 + [1024] * 4 + [4096] * 4
    assert table["machine"][:4] == ["half", "half", "whole", "whole"] and table["schedule"][:2] == ["chosen by the plan", "hilbert"]
    for i, (size, machine, schedule) in enumerate((p, m, s) for p in SIZES for m in machines.values() for s in (None, {"order": "hilbert"})):
        alone = weft.simulate(size, schedule, machine, seed=3)
        assert all(table[name][i] == getattr(alone, name) for name in ("seconds", "misses", "hit_rate", "dram_read_bytes", "efficiency"))
        assert table["resolved"][i] == str(alone.schedule)


def test_what_varies_is_a_column():
    table = weft.sweep(weft.Gemm(512, 512, 256), machines="gb10")
    assert table.axes == ("schedule",) and "m" not in table and table["machine"] == ["gb10"]
    mixed = weft.sweep([weft.Gemm(512, 512, 256), weft.Attention(512, dtype="fp16")], {"order": None, "b": {"dispatch": "grid"}}, "gb10")
    assert mixed.axes == ("problem", "dtype", "schedule") and mixed["problem"][0] == "Gemm(m=512, n=512, k=256)"
    one = weft.sweep({"layer": SIZES[0]}, {"order": "hilbert", "tile": (128, 128, 64)}, ["gb10"])  # the fields of one schedule
    assert one["problem"] == ["layer"] and one["schedule"] == ["hilbert, tile 128x128x64"]


def test_refusals():
    with pytest.raises(weft.Invalid, match="there are no problems"):
        weft.sweep([])
    with pytest.raises(weft.Invalid, match="problem is a str"):
        weft.sweep(["gemm"])
    with pytest.raises(weft.Invalid, match="two machines are alike"):
        weft.sweep(SIZES, None, ["h100", weft.Machine("h100").replace(l2_bytes=1 << 20)])
    table = weft.sweep(SIZES[:1], machines="gb10")
    with pytest.raises(weft.Invalid, match="the table has no 'speed': machine, schedule, resolved"):
        table.plot("speed")
    with pytest.raises(weft.Invalid, match="resolved is not a number"):
        table.plot("resolved")
    with pytest.raises(weft.Unreadable, match="nowhere"):
        table.plot().save("/nowhere/plot.svg")


def test_as_csv_and_pandas(tmp_path, monkeypatch):
    table = weft.sweep(SIZES, {"a, b": None}, "h100")
    table.save(tmp_path / "table.csv")
    read = list(csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text())))
    assert [{name: str(value) for name, value in row.items()} for row in table.rows] == read
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=lambda columns: ("frame", columns)))
    assert table.to_pandas() == ("frame", dict(table))


def test_plots(tmp_path):
    table = weft.sweep(SIZES, {name: {"order": name} for name in ("raster-n", "hilbert")}, "h100")
    plot = table.plot("misses")
    assert (plot.x_name, sorted(plot.lines)) == ("m", ["hilbert", "raster-n"])  # n says nothing that m does not
    assert [x for x, _ in plot.lines["hilbert"]] == [512, 1024, 4096]
    assert [y for _, y in plot.lines["hilbert"]] == [m / 1e6 for m in table["misses"][1::2]]
    drawn = xml.fromstring(plot.svg)
    words = {text.text for text in drawn.iter(f"{SVG}text")}
    assert {"raster-n", "hilbert", "512", "1K", "4K"} <= words and len(list(drawn.iter(f"{SVG}circle"))) >= 6
    by_name = table.plot(x="schedule")
    assert by_name.words == ("raster-n", "hilbert") and len(by_name.lines) == 3 and "hilbert" in by_name.svg
    plot.save(tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text() == plot.svg
    many = weft.sweep({str(i): weft.Gemm(64 * i, 64, 64) for i in range(1, 27)}, machines=["gb10"])
    with pytest.raises(weft.Invalid, match="25 lines|26 lines|24"):
        many.plot(x="machine").svg


def shown():
    problem = SIZES[0]
    ran = weft.simulate(problem, None, "h100")
    table = weft.sweep(SIZES, machines="h100")
    return [ran, weft.compare(problem, {"<a>": None, "b": {"order": "hilbert"}}, "h100"), weft.recommend(problem, "h100"), weft.plan(problem),
            weft.Machine("h100"), weft.Machine.host(), weft.Schedule(order="hilbert"), table, table.plot()]  # fmt: skip


@pytest.mark.parametrize("value", shown(), ids=lambda value: type(value).__name__)
def test_short_and_in_notebooks(value):
    assert 1 <= repr(value).count("\n") + 1 <= 3 and len(repr(value)) < 420
    page = value._repr_html_().replace("<br>", "<br/>").replace("svg+xml;", "svg;")
    page = page.replace('">', '"/>') if page.startswith("<img") else page
    root = xml.fromstring(f"<div>{page}</div>")
    assert len(root) and not list(root.iter("style")) and not list(root.iter("script")) and not list(root.iter("link"))


def test_numbers_at_hand():
    ran = weft.simulate(SIZES[1], None, "h100")
    assert (ran.misses, ran.hits, ran.sectors, ran.hit_rate) == (ran.total.misses, ran.total.hits, ran.total.sectors, ran.total.hit_rate)
    assert (ran.dram_read_bytes, ran.dram_write_bytes) == (ran.total.dram_read_bytes, ran.total.dram_write_bytes)
    assert ran.efficiency == pytest.approx(ran.tflops * 1e12 / weft.Machine("h100").matrix_bf16, rel=1e-12) and 0 < ran.efficiency < 1
    assert ran.rate in repr(ran) and ran.rate.endswith("TFLOP/s") and f"{ran.misses:,}" in repr(ran)
    small = weft.simulate(weft.Gemm(8, 8, 8), None, "h100")
    assert small.rate.endswith("FLOP/s") and "TFLOP/s" not in small.rate
    trace = weft.simulate_trace(0, range(8), "x", range(8), 128, machine="gb10")
    assert trace.efficiency is None and trace.schedule is None and "a trace" in repr(trace) and "a trace" in trace._repr_html_()
