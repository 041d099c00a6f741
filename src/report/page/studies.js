/* SPDX-License-Identifier: Apache-2.0 */
// A study: a strip of dots for each of its sections, its rows in a table, and measured data where there is any.

const verdictOf = (row) => (row.passed === undefined ? "shown" : row.passed ? "ok" : "outside");

// Large counts as integers, small numbers with their digits.
function rowNumber(value) {
  if (value === undefined) return "–";
  return Math.abs(value) >= 1e5 ? whole(value) : Math.abs(value) >= 100 ? digits(value, 1) : `${+value.toPrecision(4)}`;
}

function sectionsOf(study) {
  const sections = new Map();
  for (const row of study.rows) {
    if (!sections.has(row.section)) sections.set(row.section, []);
    sections.get(row.section).push(row);
  }
  return sections;
}

// Words in lines of at most so many letters.
function linesOf(text, most) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1) && lines.at(-1).length + 1 + word.length > most) lines.push("");
    lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word;
  }
  return lines;
}

// Simulated over published, from half to one and a half; what lies beyond is drawn at the edge.
function drawStrips(box, study) {
  const sections = [...sectionsOf(study)].map(([name, rows]) => [name, rows.filter((row) => row.published > 0)]).filter(([, rows]) => rows.length);
  const width = Math.max(260, box.clientWidth), narrow = width < 700, left = narrow ? 6 : 440, right = 12, top = 26;
  const labels = sections.map(([name]) => linesOf(name, Math.floor((narrow ? width - 12 : left - 20) / 7.1)));
  const tall = labels.map((lines) => (narrow ? 30 : 14) + 16 * lines.length), tops = tall.map((_, i) => top + tall.slice(0, i).reduce((sum, h) => sum + h, 0));
  const height = top + tall.reduce((sum, h) => sum + h, 0) + 34;
  const x = (ratio) => left + ((width - left - right) * (Math.max(0.5, Math.min(1.5, ratio)) - 0.5));
  const svg = make("svg", { class: "chart strip", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${study.title}: simulated over ${study.beside}, a dot for each number` });
  for (const ratio of [0.5, 0.75, 1, 1.25, 1.5]) {
    svg.append(make("line", { class: ratio === 1 ? "mark" : "rule", x1: x(ratio), x2: x(ratio), y1: top - 10, y2: height - 30 }));
    svg.append(make("text", { x: x(ratio), y: height - 14, "text-anchor": ratio === 0.5 ? "start" : ratio === 1.5 ? "end" : "middle" }, ratio === 0.5 ? "≤ 0.5" : ratio === 1.5 ? "≥ 1.5" : `${ratio}`));
  }
  svg.append(make("text", { x: width - right, y: 12, "text-anchor": "end" }, `simulated / ${study.beside}`));
  sections.forEach(([, rows], i) => {
    const y = tops[i] + (narrow ? tall[i] - 16 : tall[i] / 2), first = narrow ? tops[i] + 14 : y + 4 - 8 * (labels[i].length - 1);
    labels[i].forEach((words, k) => svg.append(make("text", { class: "name", x: narrow ? left : 0, y: first + 16 * k }, words)));
    for (const row of [...rows].sort((a, b) => verdictOf(b).localeCompare(verdictOf(a)))) {
      const at = x(row.simulated / row.published), verdict = verdictOf(row);
      const dot = verdict === "outside" ? make("path", { class: verdict, d: `M${at} ${y - 6.5}l6.5 6.5l-6.5 6.5l-6.5 -6.5z` }) : make("circle", { class: verdict, cx: at, cy: y, r: 5 });
      const text = `${row.label}\n${study.beside} ${rowNumber(row.published)}, simulated ${rowNumber(row.simulated)} (${row.error >= 0 ? "+" : ""}${percent(row.error)})${verdict === "outside" ? "\noutside its tolerance" : verdict === "shown" ? "\nshown, not judged" : ""}`;
      dot.addEventListener("pointermove", (event) => showTip(text, event.clientX, event.clientY));
      dot.addEventListener("pointerleave", () => showTip(""));
      svg.append(dot);
    }
  });
  box.replaceChildren(svg);
}

function tableOf(study) {
  const head = make("thead", {}, make("tr", {}, ...["row", study.beside, "simulated", "error", "verdict"].map((name) => make("th", { scope: "col" }, name))));
  const body = make("tbody");
  for (const [section, rows] of sectionsOf(study)) {
    body.append(make("tr", { class: "section" }, make("th", { colspan: 5, scope: "rowgroup" }, section)));
    for (const row of rows) {
      const verdict = verdictOf(row), error = row.error === undefined ? "" : `${row.error >= 0 ? "+" : ""}${percent(row.error, 2)}`;
      body.append(make("tr", { "data-label": row.label, "data-simulated": row.simulated }, make("th", { scope: "row" }, row.label), make("td", {}, rowNumber(row.published)), make("td", {}, rowNumber(row.simulated)), make("td", {}, error),
        make("td", { class: `verdict-${verdict}` }, verdict === "outside" ? "OUTSIDE" : verdict)));
    }
  }
  return make("table", { class: "rows" }, head, body);
}

// A card: what it is, its strips, room for more, all of its rows.
function studyCard(study) {
  const strips = make("div"), more = make("div"), judged = study.rows.filter((r) => r.passed !== undefined), outside = judged.filter((r) => !r.passed).length;
  const box = make("article", { class: "card study" }, make("h3", {}, study.title),
    make("p", { class: "quiet small comment" }, judged.length ? `${study.source}. ${judged.length} judged, ${outside} outside.` : study.source), strips, more,
    make("details", {}, make("summary", {}, `All ${study.rows.length} rows`), make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${study.title}: all rows` }, tableOf(study))));
  return { box, strips, more };
}

// The counters measured on H200s, every run of them, beside what is simulated.
function streamsChart(box, study, text) {
  const lines = text.trim().split("\n").filter((line) => !line.startsWith("#")).map((line) => line.split(","));
  const [head, ...raw] = lines, column = (name) => head.indexOf(name);
  const modes = [["shared", "experiment 2, every SM reads both buffers", "every SM reads both buffers"], ["by side", "experiment 2, each side reads one buffer", "each side reads one"], ["by pair", "experiment 2, half of the SMs each, ignoring sides", "half of the SMs each"]];
  const series = [];
  modes.forEach(([sharing, section, name], i) => {
    const simulated = study.rows.filter((row) => row.section === section && row.label.startsWith("DRAM reads"));
    series.push({ name: `${name}, simulated`, colour: colourOf(i), points: simulated.map((row) => [Number(row.label.match(/X = (\d+)/)[1]), row.simulated]) });
    const passes = sharing === "shared" ? "8" : "16";
    const points = raw.filter((row) => row[column("sharing")] === sharing && row[column("passes")] === passes).map((row) => [Number(row[column("x_mib")]), Number(row[column("dram_reads")])]);
    if (points.length) series.push({ name: `${name}, measured`, colour: colourOf(i), dots: true, points });
  });
  return lineChart(box, { title: "DRAM reads of two buffers, read again and again", xLabel: "size of each buffer (MiB)", yLabel: "DRAM reads per distinct sector", xMost: 25, yMost: 17, height: 340, xText: (v) => `${v}`, yText: (v) => `${v}`,
    describe: "DRAM reads per sector against the size of two buffers, simulated and measured", series });
}
