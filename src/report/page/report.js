/* SPDX-License-Identifier: Apache-2.0 */
// Puts the report together.

const data = JSON.parse(document.getElementById("data").textContent);
const by = (id) => document.getElementById(id);
const tag = (kind) => make("span", { class: `tag ${kind.split(" ").at(-1)}` }, kind);
const published = data.studies.filter((s) => s.beside === "published"), ours = data.studies.filter((s) => s.beside === "measured");
const judgedOf = (studies) => studies.flatMap((s) => s.rows).filter((r) => r.passed !== undefined), outsideOf = (studies) => judgedOf(studies).filter((r) => !r.passed);
const redraws = [];

function cards() {
  const card = (kind, number, text) => by("cards").append(make("div", { class: "card" }, tag(kind), make("b", {}, number), make("p", {}, text)));
  const studies = (kind, list, what) => list.length && card(kind, `${judgedOf(list).length - outsideOf(list).length} of ${judgedOf(list).length}`, `${what} of ${list.length === 1 ? "a study" : `${list.length} studies`} are predicted within their tolerance; the others are marked below.`);
  const best = data.machines.map((m) => ({ m, times: spreadOf(m.schedules, (s) => s.dram_read_bytes) })).sort((a, b) => b.times - a.times)[0];
  const fastest = data.runs.map((r) => `${digits(1000 * Math.max(...r.schedules.map((s) => s.tflops)), 1)} GFLOP/s`).join(" and ");
  const passed = data.runs.every((r) => r.schedules.every((s) => s.passed));
  studies("published", published, "judged numbers that others published");
  card("predicted", `${timesText(best.times)} ×`, `is what the worst schedule reads from DRAM over the best: ${best.m.title}, on ${best.m.machine_title}.`);
  studies("measured elsewhere", ours, "judged counters that we measured on an H200, in rows");
  card("measured here", fastest, `attention and matrix product: ${data.host.title}; every result ${passed ? "is within" : "is NOT within"} its bound against the fp64 reference.`);
  by("cards").dataset.judged = judgedOf(data.studies).length;
  by("cards").dataset.outside = outsideOf(data.studies).length;
}

// The sections of the page, each with what is in it.
function contents() {
  for (const section of document.querySelectorAll("main > section")) {
    const title = section.querySelector("h2"), inside = [...section.querySelectorAll(".study > h3")].map((h, i) => ({ id: (h.parentElement.id = `${section.id}-${i}`), text: h.textContent }));
    by("contents").append(make("li", {}, make("a", { href: `#${section.id}` }, title.firstChild.textContent.trim()), " ", title.querySelector(".tag").cloneNode(true),
      inside.length > 1 && make("ul", {}, ...inside.map(({ id, text }) => make("li", {}, make("a", { href: `#${id}` }, text))))));
  }
}

function addStudy(box, study) {
  const card = studyCard(study), draw = () => drawStrips(card.strips, study);
  box.append(card.box);
  draw();
  redraws.push(draw);
  if (study.name === "h200" && data.streams) redraws.push(streamsChart(card.more, study, data.streams).draw);
}

function recorded() {
  for (const [name, text] of Object.entries(data.recorded)) {
    const file = readCsv(text);
    if (file.head.includes("joules")) energyCards(by("energy"), file);
    if (file.head.includes("simulated_l2_misses")) addStudy(by("elsewhere"), launchesStudy(name, file));
    else by("recorded").append(fileCard(name, file));
  }
}

function hostRuns() {
  by("host-text").textContent = `${data.host.title}. Each schedule ran ${data.runs[0]?.repeats} times, in turns; the bar is the median, the thin line the span from the slowest to the fastest.`;
  for (const run of data.runs) {
    const flops = (s, seconds) => (s.tflops * s.seconds) / seconds, most = Math.max(...run.schedules.map((s) => flops(s, s.least)));
    const bars = make("tbody", {}, ...run.schedules.map((s) => {
      const bar = make("div", { class: "bar" }, make("div", { style: `width:${portion(s.tflops / most)}` }),
        make("i", { class: "span", style: `left:${portion(flops(s, s.most) / most)};width:${portion((flops(s, s.least) - flops(s, s.most)) / most)}` }));
      return make("tr", { "data-schedule": s.schedule, "data-tflops": s.tflops }, make("th", { scope: "row" }, s.schedule), make("td", {}, bar), make("td", {}, digits(1000 * s.tflops, 1)),
        make("td", {}, s.max_error.toExponential(1)), make("td", { class: s.passed ? "verdict-ok" : "verdict-outside" }, s.passed ? "passed" : "FAILED"));
    }));
    by("host").append(make("div", { class: "card" }, make("h3", {}, run.title), make("p", { class: "quiet small" }, `${run.backend} backend, ${run.kernel} kernels, ${plural(run.threads, "thread")}`),
      region(run.title, make("table", { class: "rows" }, headOf("schedule", "median", "GFLOP/s", "error", "check"), bars))));
  }
}

cards();
for (const study of published) addStudy(by("published"), study);
attentionTables(data.machines);
gemmTables(data.machines);
hostRuns();
for (const study of ours) addStudy(by("elsewhere"), study);
recorded();
for (const section of document.querySelectorAll("main > section")) if (!section.querySelector(".card")) section.remove();
contents();
by("footer").append(make("p", {}, "Made by ", make("code", {}, data.command), ` with weft ${data.weft}. Rows that nothing published stands beside are left out here; `, make("code", {}, "weft reproduce"), " prints them too."));
startTheme(() => {});
startWidth(() => redraws.forEach((draw) => draw()));
