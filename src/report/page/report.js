// Puts the report together.

const data = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);
const tag = (kind) => make("span", { class: `tag ${kind}` }, kind);
const colours = ["#0072b2", "#d55e00", "#009e73"];
const rows = data.studies.flatMap((s) => s.rows), judged = rows.filter((r) => r.passed !== undefined), outside = judged.filter((r) => !r.passed);
const redraws = [];

function cards() {
  const card = (kind, number, text) => make("div", { class: "card" }, tag(kind), make("b", {}, number), make("p", {}, text));
  const best = data.machines.map((m) => {
    const reads = m.schedules.map((s) => s.dram_read_bytes);
    return { m, times: Math.max(...reads) / Math.min(...reads) };
  }).sort((a, b) => b.times - a.times)[0];
  const fastest = data.runs.map((r) => `${digits(1000 * Math.max(...r.schedules.map((s) => s.tflops)), 1)} GFLOP/s`).join(" and ");
  const passed = data.runs.every((r) => r.schedules.every((s) => s.passed));
  by("cards").append(
    card("published", `${judged.length - outside.length} of ${judged.length}`, `judged numbers of ${data.studies.length === 1 ? "the study" : `${data.studies.length} studies`} are predicted within their tolerance. ${outside.length === 0 ? "None is" : outside.length === 1 ? "One is" : `${outside.length} are`} outside, and marked so below.`),
    card("predicted", `${digits(best.times, best.times < 10 ? 1 : 0)} ×`, `is what the worst schedule reads from DRAM over the best: ${best.m.subject === "gemm" ? "a matrix product" : "attention"} on ${best.m.machine_title}.`),
    card("measured", fastest, `on this host, attention and matrix product; every result ${passed ? "is within" : "is NOT within"} its bound against the fp64 reference.`));
  by("cards").dataset.judged = judged.length;
  by("cards").dataset.outside = outside.length;
}

function kinds() {
  const published = data.studies.filter((s) => s.beside === "published"), ours = data.studies.filter((s) => s.beside === "measured");
  const list = [
    ...published.map((s) => [`${s.title} (${s.source})`, "published", `${s.rows.filter((r) => r.published !== undefined).length} numbers that the authors measured or derived on their hardware`]),
    ...ours.map((s) => [`${s.title} (${s.source})`, "measured", `${s.rows.filter((r) => r.published !== undefined).length} hardware counters of streams and of other kernels; the raw streams are drawn below`]),
    ["Every simulated value of the studies", "predicted", "the simulator with the machine files; what is fitted to what is in docs/simulator.md"],
    ["Schedules compared on each machine", "predicted", "nothing here was run on these machines"],
    ["Launches on an H200 and runs on other CPUs", "measured", "raw numbers that were kept, each file with the command that made it"],
    [`Runs on this host (${data.host.title})`, "measured", "wall time, interleaved, median; checked against the reference"],
  ];
  by("kinds").append(make("thead", {}, make("tr", {}, ...["what", "how it is known", ""].map((t) => make("th", { scope: "col", style: "text-align:left" }, t)))),
    make("tbody", {}, ...list.map(([what, kind, how]) => make("tr", {}, make("td", {}, what), make("td", {}, tag(kind)), make("td", {}, how)))));
}

function studyCard(study) {
  const strips = make("div"), more = make("div"), n = study.rows.filter((r) => r.passed === false).length;
  const says = study.rows.filter((r) => r.passed !== undefined).length;
  const box = make("article", { class: "card study" }, make("h3", {}, study.title, " ", tag(study.beside)),
    make("p", { class: "quiet small" }, says ? `${study.source}. ${says} judged, ${n} outside.` : study.source), strips, more,
    make("details", {}, make("summary", {}, `All ${study.rows.length} rows`), make("div", { class: "scroll" }, tableOf(study))));
  return { box, strips, more };
}

function studies() {
  for (const study of data.studies) {
    const { box, strips, more } = studyCard(study);
    by("studies").append(box);
    const draw = () => drawStrips(strips, study);
    draw();
    redraws.push(draw);
    if (study.name === "h200" && data.streams) redraws.push(streamsChart(more, study, data.streams, colours).draw);
  }
}

function recorded() {
  for (const [name, text] of Object.entries(data.recorded)) {
    if (name.startsWith("cpu-")) {
      by("recorded").append(peersCard(name, text));
    } else {
      const study = launchesStudy(name, text), { box, strips } = studyCard(study), draw = () => drawStrips(strips, study);
      by("recorded").append(box);
      draw();
      redraws.push(draw);
    }
  }
}

// What a machine's schedules differ in: what they read from DRAM, or, where a last-level cache hides that, what the L2s miss.
function metricOf(m) {
  const spread = (value) => Math.max(...m.schedules.map(value)) / Math.min(...m.schedules.map(value));
  const dram = { name: "read from DRAM", value: (s) => s.dram_read_bytes, text: (s) => size(s.dram_read_bytes) };
  const metric = spread(dram.value) > 1.03 ? dram : { name: "L2 misses", value: (s) => s.misses, text: (s) => count(s.misses) };
  return { ...metric, least: Math.min(...m.schedules.map(metric.value)), fastest: Math.min(...m.schedules.map((s) => s.seconds)) };
}

function cell(s, metric) {
  if (!s) return make("td", {}, "–");
  const share = metric.value(s) / metric.least, tint = Math.round(Math.min(1, Math.log2(share) / 3) * 46); // full at eight times the least
  const title = `${percent(s.hit_rate, 2)} hits, ${count(s.misses)} misses, ${size(s.dram_read_bytes)} from DRAM, ${count(s.fabric_sectors)} sectors over the fabric, ${digits(s.tflops, 0)} TFLOP/s`;
  return make("td", { style: `background: color-mix(in srgb, var(--miss) ${tint}%, var(--card))`, class: share <= 1.005 ? "best" : "", title }, metric.text(s), make("small", {}, duration(s.seconds, metric.fastest)));
}

function attentionTables() {
  const list = data.machines.filter((m) => m.subject === "attention");
  by("attention-text").textContent = list.length ? `${list[0].title}, tiles of ${list[0].tile.join("×")}: what is read from DRAM (or missed in the L2s), and below it the predicted time. Tinted where it is more; the least is framed.` : "";
  for (const m of list) {
    const orders = [...new Set(m.schedules.map((s) => s.order))].sort(), sweeps = ["forward", "sawtooth", "pair"], metric = metricOf(m);
    const table = make("table", { class: "heat", "data-machine": m.machine }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "order"), ...sweeps.map((s) => make("th", { scope: "col" }, s)))),
      make("tbody", {}, ...orders.map((o) => make("tr", {}, make("th", { scope: "row" }, o), ...sweeps.map((w) => cell(m.schedules.find((s) => s.order === o && s.sweep === w), metric))))));
    by("attention").append(make("div", { class: "card" }, make("h3", {}, m.machine_title), make("p", { class: "quiet small", style: "margin-bottom:6px" }, metric.name), make("div", { class: "scroll" }, table)));
  }
}

function gemmTable() {
  const list = data.machines.filter((m) => m.subject === "gemm");
  if (!list.length) return;
  by("gemm-text").textContent = `${list[0].title}, tiles of ${list[0].tile.join("×")}, read the same way. In each column the least is framed.`;
  const orders = [...new Set(list.flatMap((m) => m.schedules.map((s) => s.order)))].sort(), metrics = list.map(metricOf);
  by("gemm").append(make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "order"), ...list.map((m, i) => make("th", { scope: "col" }, m.machine.toUpperCase(), make("small", {}, metrics[i].name))))),
    make("tbody", {}, ...orders.map((o) => make("tr", {}, make("th", { scope: "row" }, o), ...list.map((m, i) => cell(m.schedules.find((s) => s.order === o), metrics[i]))))));
}

function hostRuns() {
  by("host-text").textContent = `${data.host.title}. Each schedule ran ${data.runs[0]?.repeats} times, in turns; the bar is the median, the thin line the span from the slowest to the fastest.`;
  for (const run of data.runs) {
    const flops = (s, seconds) => (s.tflops * s.seconds) / seconds, most = Math.max(...run.schedules.map((s) => flops(s, s.least)));
    const bars = make("tbody", {}, ...run.schedules.map((s) => {
      const bar = make("div", { style: `position:relative;height:14px;min-width:110px;background:var(--empty);border-radius:4px` },
        make("div", { style: `position:absolute;inset:0 auto 0 0;width:${portion(s.tflops / most)};background:var(--held);border-radius:4px` }),
        make("div", { style: `position:absolute;top:6px;height:2px;background:var(--ink);left:${portion(flops(s, s.most) / most)};width:${portion((flops(s, s.least) - flops(s, s.most)) / most)}` }));
      return make("tr", { "data-schedule": s.schedule, "data-tflops": s.tflops }, make("td", {}, s.schedule), make("td", { style: "width:40%" }, bar), make("td", {}, digits(1000 * s.tflops, 1)),
        make("td", {}, s.max_error.toExponential(1)), make("td", { class: s.passed ? "verdict-ok" : "verdict-outside" }, s.passed ? "passed" : "FAILED"));
    }));
    const head = make("thead", {}, make("tr", {}, ...["schedule", "", "GFLOP/s", "error", "check"].map((t) => make("th", { scope: "col" }, t))));
    by("host").append(make("div", { class: "card" }, make("h3", {}, run.title), make("p", { class: "quiet small" }, `${run.backend} backend, ${run.kernel} kernels, ${plural(run.threads, "thread")}`), make("div", { class: "scroll" }, make("table", {}, head, bars))));
  }
}

cards();
kinds();
studies();
attentionTables();
gemmTable();
hostRuns();
recorded();
by("footer").append(make("p", {}, "Made by ", make("code", {}, data.command), ` with weft ${data.weft}. Rows that nothing published stands beside are left out here; `, make("code", {}, "weft reproduce"), " prints them too."));
startTheme(() => {});
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  for (const draw of redraws) draw();
});
