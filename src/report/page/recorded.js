// What was measured before, on machines that are not here: raw files of docs/results, with the comments that head them.

function readCsv(text) {
  const lines = text.split("\n").filter((line) => line.trim());
  const [head, ...rest] = lines.filter((line) => !line.startsWith("#"));
  const names = head.split(",");
  const rows = rest.map((line) => Object.fromEntries(line.split(",").map((value, i) => [names[i], value])));
  return { comment: lines.filter((line) => line.startsWith("#")).map((line) => line.slice(1).trim()).join(" "), rows };
}

// Launches on a GPU as a study: what the counters said, and what the simulator had said.
function launchesStudy(name, text) {
  const { comment, rows } = readCsv(text);
  const of = (row, key, section) => {
    const published = +row[key], simulated = +row[`simulated_${key}`];
    const problem = `B ${row.batch}, H ${row.heads}, S ${row.seq / 1024}K, D ${row.head_dim}${+row.causal ? ", causal" : ""}, ${row.tile}, ${row.order} ${row.sweep} ${row.dispatch}, ${row.workers} workers`;
    return published > 0 && simulated > 0 ? [{ section, label: problem, published, simulated, error: simulated / published - 1 }] : [];
  };
  return {
    name, beside: "measured", source: comment, title: `Launches on an H200: ${name.replace(/^h200-device-|\.csv$/g, "")}`,
    rows: [...rows.flatMap((row) => of(row, "l2_misses", "L2 misses (sectors)")), ...rows.flatMap((row) => of(row, "dram_read_bytes", "read from DRAM (bytes)"))],
  };
}

// The CPU beside its peers: a bar for each ratio, from 0 to 4, with a mark at 1.
function peersTable(rows) {
  const bar = (ratio) => make("div", { style: "position:relative;height:12px;min-width:110px;background:var(--empty);border-radius:4px" },
    make("div", { style: `position:absolute;inset:0 auto 0 0;width:${portion(Math.min(1, ratio / 4))};background:${ratio >= 1 ? "var(--held)" : "var(--miss)"};border-radius:4px` }),
    make("div", { style: "position:absolute;left:25%;top:-2px;bottom:-2px;width:2px;background:var(--ink)" }));
  const head = make("thead", {}, make("tr", {}, ...["", "weft", "peer", "ratio", "", "of the peak"].map((name) => make("th", { scope: "col" }, name))));
  return make("table", { class: "rows" }, head, make("tbody", {}, ...rows.map((row) => make("tr", {}, make("td", {}, row.row), make("td", {}, digits(+row.weft, 1)), make("td", {}, digits(+row.peer, 1)),
    make("td", {}, digits(+row.ratio, 2)), make("td", { style: "width:30%" }, bar(+row.ratio)), make("td", {}, percent(+row.share, 0))))));
}

function peersCard(name, text) {
  const { comment, rows } = readCsv(text), groups = [...new Set(rows.map((row) => row.group))];
  const mean = (list) => Math.exp(list.reduce((sum, row) => sum + Math.log(+row.ratio), 0) / list.length);
  const says = groups.map((group) => `${group} ${digits(mean(rows.filter((row) => row.group === group)), 2)}`).join("; ");
  return make("article", { class: "card study" }, make("h3", {}, `The CPU beside its peers: ${name.replace(/^cpu-|\.csv$/g, "")} `, make("span", { class: "tag measured" }, "measured")),
    make("p", { class: "quiet small" }, comment), make("p", { class: "small" }, `Geometric means of weft's rate over the peer's: ${says}.`),
    make("details", {}, make("summary", {}, `All ${rows.length} rows`), make("div", { class: "scroll" }, peersTable(rows))));
}
