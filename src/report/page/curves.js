/* SPDX-License-Identifier: Apache-2.0 */
// The charts of all schedules together: hits and misses through time, misses against the size of the L2.

// Hits among lookups, a point for each hundred-twentieth of the run: [[seconds, per cent]].
function shares(s) {
  const { hits, misses } = s.trace.total, width = Math.max(1, Math.round(s.trace.frames / 120)), points = [];
  for (let f = width - 1; f < s.trace.frames; f += width) {
    const from = f - width, h = hits[f] - (from < 0 ? 0 : hits[from]), m = misses[f] - (from < 0 ? 0 : misses[from]);
    if (h + m > 0) points.push([((f + 1) / s.trace.frames) * s.trace.seconds, (100 * h) / (h + m)]);
  }
  return points;
}

// From where on hits are drawn: near them, unless that would cut more than their beginning.
function leastOf(lists) {
  const settled = lists.flatMap((points) => points.slice(Math.ceil(points.length / 12)).map((p) => p[1])).sort((a, b) => a - b);
  const least = settled[Math.floor(settled.length / 20)] ?? 0;
  return least >= 100 ? 0 : least > 90 ? Math.floor(least) - 1 : least > 50 ? 10 * Math.floor(least / 10) : 0;
}

// Several lines that lie on each other are told apart by their dashes.
const dashOf = (i) => ["none", "7 3", "2 3", "9 3 2 3"][i % 4];

function startCurves({ schedules, machine }, longest) {
  const card = () => document.getElementById("time").appendChild(make("div", { class: "card" }));
  const [unit, unitName] = unitOf(longest), millions = (v) => `${+(v / 1e6).toPrecision(4)}`;
  const time = { xLabel: `time (${unitName})`, xMost: longest / unit, xText: (v) => `${+v.toPrecision(4)}` };
  const says = (list) => list.map((s) => `${s.name} ${s.end}`).join(", ");
  const series = (points, end) => schedules.map((s, i) => ({ name: s.name, colour: colourOf(i), dash: dashOf(i), points: points(s), end: end(s) }));
  const most = Math.max(...schedules.map(missesOf)), rates = series(shares, (s) => percent(s.simulation.l2.hit_rate));
  const yLeast = leastOf(rates.map((r) => r.points));
  rates.forEach((r, i) => {
    r.points = r.points.map(([t, share]) => [t / unit, share]);
    r.endAt = 100 * schedules[i].simulation.l2.hit_rate;
  });
  const hits = lineChart(card(), { ...time, yLabel: `L2 hits (% of lookups${yLeast ? `, from ${yLeast}` : ""}; at the right: of all)`, yMost: 100, yLeast, yText: (v) => `${v}`, series: rates,
    describe: `Hit rate through time. In all: ${says(rates)}` });
  const sums = series((s) => [[0, 0], ...Array.from(s.trace.total.misses, (m, f) => [(((f + 1) / s.trace.frames) * s.trace.seconds) / unit, m])], (s) => count(missesOf(s)));
  const misses = lineChart(card(), { ...time, yLabel: "misses so far (million sectors)", yMost: most * 1.05, yText: millions, series: sums, describe: `Misses so far. At the end: ${says(sums)}` });

  // To the right of where every curve has come down there is nothing to see.
  const down = (s) => s.curve.find((p) => p.misses <= 1.005 * s.curve[s.curve.length - 1].misses).l2_bytes;
  const mostBytes = Math.max(machine.l2_bytes, ...schedules.map(down)) * 1.3, mostMisses = Math.max(most, ...schedules.flatMap((s) => s.curve.map((p) => p.misses)));
  const shown = (s) => s.curve.filter((p) => p.l2_bytes <= mostBytes), last = (s) => shown(s).at(-1)?.misses ?? 0;
  const lines = series((s) => shown(s).map((p) => [p.l2_bytes / MEBI, p.misses]), (s) => count(last(s)));
  const runs = schedules.map((s, i) => ({ colour: colourOf(i), dots: true, points: [[machine.l2_bytes / MEBI, missesOf(s)]] }));
  const curve = lineChart(document.getElementById("curve"), { xLabel: `L2${machine.domains > 1 ? ` of one ${machine.domain}` : ""} (MiB)`, xMost: mostBytes / MEBI, xText: (v) => `${v}`, height: 330,
    yLabel: "misses (million sectors)", yMost: mostMisses * 1.05, yText: millions, mark: { x: machine.l2_bytes / MEBI, text: `this machine: ${binarySize(machine.l2_bytes)}` },
    describe: `Misses against the size of the L2. At its largest: ${says(lines)}`, series: [...lines, ...runs] });
  return { timed: [hits, misses], all: [hits, misses, curve], unit };
}
