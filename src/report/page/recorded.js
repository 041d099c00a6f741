/* SPDX-License-Identifier: Apache-2.0 */
// What was measured before, on machines that are not here: raw files of docs/results, with the comments that head them.

function readCsv(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  const [head, ...rest] = lines.filter((line) => !line.startsWith("#")).map((line) => line.split(","));
  const rows = rest.map((line) => Object.fromEntries(line.map((value, i) => [head[i], value])));
  return { comment: lines.filter((line) => line.startsWith("#")).map((line) => line.slice(1).trim()).join(" "), head, lines: rest, rows };
}

const problemOf = (row) => (row.m
  ? `${row.m} × ${row.n} × ${row.k} ${row.dtype}, ${row.tile}, ${row.order}${+row.group ? ` ${row.group}` : ""} ${row.sweep} ${row.dispatch}, ${row.workers} workers`
  : `B ${row.batch}, H ${row.heads}, S ${row.seq / 1024}K, D ${row.head_dim}${+row.causal ? ", causal" : ""}, ${row.tile}, ${row.order} ${row.sweep} ${row.dispatch}, ${row.workers} workers`);

// Launches on a GPU as a study: what the counters said, and what the simulator had said.
function launchesStudy(name, { comment, rows }) {
  const of = (row, key, section) => {
    const published = +row[key], simulated = +row[`simulated_${key}`];
    return published > 0 && simulated > 0 ? [{ section, label: problemOf(row), published, simulated, error: simulated / published - 1 }] : [];
  };
  return {
    name, beside: "measured", source: comment, title: `Launches: ${name.replace(/^h200-device-|-h200|\.csv$/g, "")}`,
    rows: [...rows.flatMap((row) => of(row, "l2_misses", "L2 misses (sectors)")), ...rows.flatMap((row) => of(row, "dram_read_bytes", "read from DRAM (bytes)"))],
  };
}

const region = (label, table) => make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
const tableOfRows = (head, rows) => make("table", { class: "rows" }, headOf(...head), make("tbody", {}, ...rows.map(([first, ...others]) => make("tr", {}, make("th", { scope: "row" }, first), ...others.map((value) => make("td", {}, value))))));
const fold = (name, rows, table) => make("details", {}, make("summary", {}, `All ${rows.length} rows`), region(`${name}: all rows`, table));

// Products by their order: misses, and what they do to speed and energy. A card for each size.
function energyCards(box, { rows }) {
  const sizes = [...new Set(rows.map((row) => row.m))], best = (list, key) => Math.max(...list.map((row) => +row[key]));
  for (const m of sizes) {
    const list = rows.filter((row) => row.m === m).map((row) => ({ ...row, per_joule: (2 * row.m * row.n * row.k) / row.joules / 1e12 })).sort((a, b) => b.l2_misses - a.l2_misses);
    const cells = (row) => [`${row.order}${row.sweep === "forward" ? "" : `, ${row.sweep}`}`, count(+row.l2_misses), size(+row.dram_read_bytes), digits(+row.tflops, 0), digits(+row.watts, 0), digits(row.per_joule, 3)];
    const table = tableOfRows(["order", "L2 misses", "DRAM reads", "TFLOP/s", "W", "TFLOP/J"], list.map(cells));
    for (const [column, key] of [[3, "tflops"], [5, "per_joule"]]) {
      list.forEach((row, i) => +row[key] === best(list, key) && table.tBodies[0].rows[i].cells[column].classList.add("fast"));
    }
    box.append(make("div", { class: "card" }, make("h3", {}, `${whole(+m)}³, ${list[0].dtype}, tiles of ${list[0].tile}`), region(`Energy of products of ${m}`, table)));
  }
}

// The CPU beside its peers: a bar for each ratio, from 0 to 4, with a mark at 1.
function peersTable(rows) {
  const bar = (ratio) => make("div", { class: "bar" }, make("div", { style: `width:${portion(Math.min(1, ratio / 4))};background:${ratio >= 1 ? "var(--accent)" : "var(--much)"}` }), make("i", { style: "left:25%" }));
  return tableOfRows(["row", "weft", "peer", "ratio", "0 to 4", "of the peak"], rows.map((row) => [row.row, digits(+row.weft, 1), digits(+row.peer, 1), digits(+row.ratio, 2), bar(+row.ratio), percent(+row.share, 0)]));
}

function peersSays(rows) {
  const mean = (list) => Math.exp(list.reduce((sum, row) => sum + Math.log(+row.ratio), 0) / list.length);
  const groups = [...new Set(rows.map((row) => row.group))];
  return `Geometric means of weft's rate over the peer's: ${groups.map((group) => `${group} ${digits(mean(rows.filter((row) => row.group === group)), 2)}`).join("; ")}.`;
}

// What a file is about, by its name.
const wordsOf = (name) => name.replace(/\.csv$/, "").replace(/-h200/, ", H200").replace(/^cpu-x86/, "CPU, x86:").replace(/^gemm/, "GEMM:").replace(/-/g, " ");

// Any other file as it is; one of ratios with its means and bars.
function fileCard(name, { comment, head, lines, rows }) {
  const peers = head.includes("ratio") && head.includes("peer");
  return make("article", { class: "card study" }, make("h3", {}, peers ? `The CPU beside its peers: ${name.replace(/^cpu-|\.csv$/g, "")}` : wordsOf(name)),
    peers && make("p", { class: "small" }, peersSays(rows)), make("p", { class: "quiet small comment" }, `${name}: ${comment}`), fold(name, rows, peers ? peersTable(rows) : tableOfRows(head, lines)));
}
