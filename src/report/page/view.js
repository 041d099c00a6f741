// Puts the view together.

const data = JSON.parse(document.getElementById("data").textContent);
const attention = data.problem.kind.startsWith("attention"), isTrace = data.problem.kind === "trace";
const operands = attention ? "K and V" : isTrace ? data.schedules[0].trace.map.sections.map((s) => s.name).join(", ") : "A and B";
const { machine } = data;
for (const schedule of data.schedules) schedule.trace = decodeTrace(schedule.trace);
const longest = Math.max(...data.schedules.map((s) => s.trace.seconds));
const colourOf = (i) => hex(data.categories[i % data.categories.length]);
const by = (id) => document.getElementById(id);

function writeTexts() {
  document.title = `${data.title}: weft`;
  by("title").textContent = data.title;
  const l2 = binarySize(machine.l2_bytes);
  const room = machine.domains > 1 ? `${machine.domains} ${machine.domain}s, each with an L2 of ${l2}` : `one L2 of ${l2}`;
  by("lead").textContent = `On ${machine.title}: ${plural(machine.workers, "worker")}, ${room}. ` +
    (data.schedules.length > 1
      ? isTrace ? "Each panel is a trace." : "Every schedule below computes the same thing. Only the order of the tiles, or the way through each of them, differs."
      : "Each square is a tile of the output; workers go from tile to tile, and read what they need through the L2.");
  by("finding").replaceChildren(...finding());
  by("time-text").textContent = "How much of what workers ask for is in the L2, and how much has had to be fetched so far.";
  by("held-text").textContent = `${attention ? "Blocks of keys" : "Slices of k"} from first (top) to last, blue where the L2 holds them; the line is the way of one worker. Where it runs into blue, the data is still there.`;
  by("curve-text").textContent = `Misses for every size of ${machine.domains > 1 ? `the L2 of a ${machine.domain}` : "the L2"}, with workers in step and strict LRU. The dots are the simulated runs above, drift included.`;
  by("reuse-text").textContent = `The height is how much other data was touched since a sector was touched last; the colour is how many sectors. What lies above the dashed line, the capacity ${machine.domains > 1 ? `of one ${machine.domain}` : "of the L2"}, is gone when it is needed again.`;
  by("footer").replaceChildren(
    make("p", {}, "Everything here is simulated, nothing is measured. Made by ", make("code", {}, data.command), ` with weft ${data.weft}.`));
}

// The one sentence that the numbers say.
function finding() {
  const misses = (s) => s.simulation.l2.misses, sorted = [...data.schedules].sort((a, b) => misses(a) - misses(b));
  const best = sorted[0], worst = sorted[sorted.length - 1], times = misses(worst) / misses(best);
  const strong = (s) => make("strong", {}, s.name), read = (s) => s.simulation.dram.read_bytes;
  if (sorted.length === 1) return [strong(best), `: ${percent(best.simulation.l2.hit_rate)} of the sectors looked up are in the L2; ${count(misses(best))} are not.`];
  if (times < 1.03) return [`Here the schedules miss about equally often: ${count(misses(best))} to ${count(misses(worst))} sectors.`];
  const dram = read(worst) > 1.03 * read(best) ? `, and ${size(read(best))} come from DRAM against ${size(read(worst))}` : "";
  return [strong(best), ` misses ${times < 10 ? digits(times, 1) : digits(times, 0)} times less often than `, strong(worst), `: ${count(misses(best))} sectors against ${count(misses(worst))}${dram}.`];
}

function how(s) {
  if (isTrace) return `${whole(s.simulation.problem.steps)} steps of ${plural(s.simulation.problem.jobs, "tile")}; ${plural(s.trace.workers, "worker")}`;
  const c = s.simulation.schedule, extra = c.group ? ` of ${c.group}` : c.domains ? ` over ${c.domains}` : "";
  const cluster = c.cluster[0] * c.cluster[1] > 1 ? `, cluster ${c.cluster.join("×")}` : "";
  return `${c.order}${extra}, ${c.sweep}, ${c.dispatch}; tiles of ${c.tile.join("×")}${cluster}; ${plural(s.trace.workers, "worker")}`;
}

function panelOf(s, i) {
  const number = (id, label) => make("div", {}, make("dt", {}, label), make("dd", { "data-live": id }));
  const canvas = make("canvas", { class: "tiles", tabindex: 0, role: "img", "aria-label": `${s.name}: ${s.grid.rows} by ${s.grid.cols} tiles, coloured as they are visited` });
  const key = make("span", { class: "key" });
  key.style.background = colourOf(i);
  const title = make("h2", {}, key, s.name);
  const folded = s.grid.lines > 1 ? `, folded every ${s.grid.fold}` : "";
  const axes = make("div", { class: "axes" }, make("span", {}, `→ ${s.grid.col}${folded}`), make("span", {}, `↓ ${s.grid.row}`));
  const cacheBox = make("div", { class: "cache" }, make("h3", {}, `The L2: what it holds of ${operands}`));
  const panel = make("section", { class: "panel card", "aria-label": s.name }, make("header", {}, title), make("p", { class: "how" }, how(s)),
    make("dl", { class: "numbers" }, number("hit_rate", "hits so far"), number("misses", "missed sectors"), number("dram", "from DRAM"),
      ...(s.simulation.added_sectors ? [make("div", {}, make("dt", {}, "added sectors"), make("dd", {}, count(s.simulation.added_sectors)))] : [])),
    make("div", {}, canvas), axes, cacheBox);
  by("panels").append(panel);
  const cache = new Cache(cacheBox, s, data);
  const across = attention ? "→ key block, ↓ kv head" : isTrace ? `→ block; from top to bottom ${operands}` : "→ k slice; above A by m, below B by n";
  cacheBox.append(make("div", { class: "axes" }, make("span", {}, across)));
  return { panel, tiles: new Tiles(canvas, s, data), cache };
}

function legend() {
  const ramp = make("span", { class: "ramp" });
  ramp.style.background = `linear-gradient(90deg, ${data.ramp.map(hex).join(",")})`;
  const item = (colour, text) => {
    const key = make("span", { class: "key" });
    key.style.background = colour;
    return make("li", {}, key, text);
  };
  const list = make("ul", { class: "keys", id: "legend" });
  const meaning = make("li", {}), show = (what) => {
    const ends = { position: ["first position", "last"], misses: ["no misses", "most"] }[what];
    meaning.replaceChildren(...(ends ? [ends[0], ramp, ends[1]] : Array.from({ length: machine.domains }, (_, d) => item(hex(data.categories[d % data.categories.length]), `${machine.domain} ${d} `))));
  };
  list.append(meaning, item("var(--ink)", "worker at a tile; in the L2, a worker that hits"), item("var(--held)", "held"), item("var(--miss)", "came in just now, or a worker that missed"), ...(isTrace ? [] : [item("var(--quiet)", `in the bar: tiles of ${attention ? "Q and O" : "C"}`)]));
  by("panels").after(list);
  return show;
}

function shares(s) {
  const { hits, misses } = s.trace.total, width = Math.max(1, Math.round(s.trace.frames / 120)), points = [];
  for (let f = width - 1; f < s.trace.frames; f += width) {
    const from = f - width, h = hits[f] - (from < 0 ? 0 : hits[from]), m = misses[f] - (from < 0 ? 0 : misses[from]);
    if (h + m > 0) points.push([((f + 1) / s.trace.frames) * s.trace.seconds / unitOf(longest)[0], (100 * h) / (h + m)]);
  }
  return points;
}

function chartsOf() {
  const card = (parent) => {
    const box = make("div", { class: "card" });
    by(parent).append(box);
    return box;
  };
  const [unit, unitName] = unitOf(longest);
  const time = { xLabel: `time (${unitName})`, xMost: longest / unit, xText: (v) => `${+v.toPrecision(4)}` };
  const series = (points) => data.schedules.map((s, i) => ({ name: s.name, colour: colourOf(i), points: points(s) }));
  const scaled = (v) => `${+(v / 1e6).toPrecision(4)}`;
  const mostMisses = Math.max(...data.schedules.map((s) => s.simulation.l2.misses));
  // To the right of where every curve has come down there is nothing to see.
  const down = (s) => s.curve.find((p) => p.misses <= 1.005 * s.curve[s.curve.length - 1].misses).l2_bytes;
  const mostBytes = Math.max(machine.l2_bytes, ...data.schedules.map(down)) * 1.3;
  const mostCurve = Math.max(mostMisses, ...data.schedules.flatMap((s) => s.curve.map((p) => p.misses)));
  const rates = series(shares), settled = rates.flatMap((s) => s.points.slice(Math.ceil(s.points.length / 12)).map((p) => p[1]));
  const least = settled.sort((a, b) => a - b)[Math.floor(settled.length / 20)] ?? 0, yLeast = least > 90 ? Math.floor(least) - 1 : least > 50 ? 10 * Math.floor(least / 10) : 0;
  const hits = lineChart(card("time"), { ...time, yLabel: `L2 hits (% of the sectors looked up${yLeast ? `, from ${yLeast}` : ""})`, yMost: 100, yLeast, yText: (v) => `${v}`, series: rates, describe: "Hit rate through time, a line for each schedule" });
  const misses = lineChart(card("time"), { ...time, yLabel: "misses so far (million sectors)", yMost: mostMisses * 1.05, yText: scaled, describe: "Misses so far, a line for each schedule",
    series: series((s) => [[0, 0], ...Array.from(s.trace.total.misses, (m, f) => [(((f + 1) / s.trace.frames) * s.trace.seconds) / unit, m])]) });
  const runs = data.schedules.map((s, i) => ({ name: `${s.name}, simulated`, colour: colourOf(i), dots: true, points: [[machine.l2_bytes / MEBI, s.simulation.l2.misses]] }));
  const curve = lineChart(by("curve"), { xLabel: `L2${machine.domains > 1 ? ` of one ${machine.domain}` : ""} (MiB)`, xMost: mostBytes / MEBI, xText: (v) => `${v}`, height: 330,
    yLabel: "misses (million sectors)", yMost: mostCurve * 1.05, yText: scaled, mark: { x: machine.l2_bytes / MEBI, text: `this machine: ${binarySize(machine.l2_bytes)}` }, describe: "Misses against the size of the L2, a line for each schedule",
    series: [...series((s) => s.curve.filter((p) => p.l2_bytes <= mostBytes).map((p) => [p.l2_bytes / MEBI, p.misses])), ...runs] });
  return { timed: [hits, misses], all: [hits, misses, curve] };
}

function pictures(id, build) {
  return data.schedules.map((s, i) => {
    const key = make("span", { class: "key" });
    key.style.background = colourOf(i);
    const box = make("figure", { class: "card" }, make("h3", { style: "margin-bottom:12px" }, key, s.name));
    by(id).append(box);
    return build(box, s);
  });
}

// The table of what came out, each number with the key that it has in the JSON.
function costTable() {
  const columns = [["L2 hits", "l2.hit_rate", (v) => percent(v, 2)], ["L2 sectors", "l2.sectors", whole], ["misses", "l2.misses", whole], ["fabric sectors", "fabric.sectors", whole],
    ["read from DRAM", "dram.read_bytes", size], ["written", "dram.write_bytes", size], ["time", "predicted.seconds", duration], ["TFLOP/s", "predicted.tflops", (v) => digits(v, 1)]];
  const value = (object, path) => path.split(".").reduce((o, k) => o[k], object);
  const head = make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "schedule"), ...columns.map(([name]) => make("th", { scope: "col" }, name))));
  const body = make("tbody");
  data.schedules.forEach((s, i) => {
    const cells = columns.map(([, path, text]) => make("td", { "data-key": path, "data-value": value(s.simulation, path) }, text(value(s.simulation, path))));
    const key = make("span", { class: "key" });
    key.style.background = colourOf(i);
    body.append(make("tr", { "data-schedule": s.name }, make("th", { scope: "row", style: "text-align:left" }, key, s.name), ...cells));
  });
  by("cost").append(head, body);
}

writeTexts();
const panels = data.schedules.map(panelOf);
const showLegend = legend();
const charts = chartsOf();
const held = attention ? pictures("held", (box, s) => new Held(box, s, longest)) : [];
by("held-section").hidden = !attention;
const reuse = pictures("reuse", (box, s) => new Reuse(box, s, data, longest));
costTable();
const choices = [["position", "position"], ...(machine.domains > 1 ? [["domain", machine.domain]] : []), ["misses", "misses"]];
by("colour").append(...choices.map(([value, text]) => make("option", { value }, text)));

function show(time) {
  data.schedules.forEach((s, i) => {
    const { panel, tiles, cache } = panels[i], frame = frameAt(s.trace, time), at = (name) => (frame < 0 ? 0 : s.trace.total[name][frame]);
    const values = { hit_rate: at("hits") + at("misses") ? at("hits") / (at("hits") + at("misses")) : 0, misses: at("misses"), dram: at("dram") * machine.sector };
    const texts = { hit_rate: percent(values.hit_rate), misses: count(values.misses), dram: size(values.dram) };
    for (const cell of panel.querySelectorAll("[data-live]")) {
      cell.textContent = texts[cell.dataset.live];
      cell.dataset.value = values[cell.dataset.live];
    }
    tiles.draw(time);
    cache.draw(time);
  });
  for (const chart of charts.timed) chart.cursor(time / unitOf(longest)[0]);
  for (const picture of [...held, ...reuse]) picture.draw(time);
}

const player = new Player(longest, data.schedules[0].trace.frames, show);
by("colour").addEventListener("change", (event) => {
  for (const { tiles } of panels) {
    tiles.colourBy = event.target.value;
    tiles.reset();
  }
  showLegend(event.target.value);
  show(player.time);
});
showLegend("position");
function redraw() {
  for (const { tiles } of panels) tiles.reset();
  for (const picture of held) picture.reset();
  for (const chart of charts.all) chart.draw();
  player.to(player.time);
}
startTheme(redraw);
let width = innerWidth;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  redraw();
});
if (!matchMedia("(prefers-reduced-motion: reduce)").matches) player.toggle();
