/* SPDX-License-Identifier: Apache-2.0 */
// Puts the view together.

const data = JSON.parse(document.getElementById("data").textContent);
const { machine, schedules } = data, isTrace = data.problem.kind === "trace", attention = data.problem.kind.startsWith("attention");
for (const schedule of schedules) schedule.trace = decodeTrace(schedule.trace);
const longest = Math.max(...schedules.map((s) => s.trace.seconds));
const { map } = schedules[0].trace, operands = map.sections.map((s) => s.name).join(isTrace ? ", " : " and ");
const by = (id) => document.getElementById(id);

// Where schedules differ in nothing but the sweep, the grids are alike: what stays of the data comes first.
function differInSweepOnly() {
  const rest = ({ sweep, ...others }) => JSON.stringify(others);
  return schedules.length > 1 && !isTrace && new Set(schedules.map((s) => rest(s.simulation.schedule))).size === 1;
}

function writeTexts() {
  document.title = `${data.title}: weft`;
  by("title").append(...headlineOf(data).filter(Boolean));
  const l2 = binarySize(machine.l2_bytes), room = machine.domains > 1 ? `${machine.domains} ${machine.domain}s, each with an L2 of ${l2}` : `one L2 of ${l2}`;
  by("lead").append(make("b", {}, data.title), ` on ${machine.title}: ${plural(machine.workers, "worker")}, ${room}.`);
  by("finding").textContent = findingOf(data);
  by("time-text").textContent = "How much of what workers ask for is in the L2, and how much has had to be fetched so far.";
  by("held-text").textContent = `${map.step[0].toUpperCase()}${map.step.slice(1)}s from first (top) to last, filled where an L2 holds them. Where the way of a worker runs into what is held, the data is still there.`;
  by("held-keys").append(keyItem(swatch("var(--held)"), "held"), keyItem(swatch("var(--miss)"), "came in just now: a miss"), keyItem(swatch("var(--ink)", "line"), "the way of one worker"));
  by("curve-text").textContent = `Misses for every size of ${machine.domains > 1 ? `the L2 of a ${machine.domain}` : "the L2"}, with workers in step and strict LRU. The dots are the simulated runs above, drift included.`;
  by("reuse-text").textContent = `The height is how much other data was touched since a sector was touched last. What lies above the dashed line, the capacity ${machine.domains > 1 ? `of one ${machine.domain}` : "of the L2"}, is gone when it is needed again.`;
  by("reuse-keys").append(make("li", {}, "few sectors", ramp(data.ramp), "many"));
  by("cost-text").append("The whole run, predicted; the same numbers as ", make("code", {}, "weft simulate --json"), " gives.");
  by("footer").append(make("p", {}, "Everything here is simulated, nothing is measured. Made by ", make("code", {}, data.command), ` with weft ${data.weft}.`));
}

function how(s) {
  if (isTrace) return `${whole(s.simulation.problem.steps)} steps of ${plural(s.simulation.problem.jobs, "tile")}; ${plural(s.trace.workers, "worker")}`;
  const c = s.simulation.schedule, extra = c.group ? ` of ${c.group}` : c.domains ? ` over ${c.domains}` : "";
  const cluster = c.cluster[0] * c.cluster[1] > 1 ? `, cluster ${c.cluster.join("×")}` : "";
  return `${c.order}${extra}, ${c.sweep}, ${c.dispatch}; tiles of ${c.tile.join("×")}${cluster}; ${plural(s.trace.workers, "worker")}`;
}

// What an axis of a picture counts; nothing where there is but one.
const axes = (...parts) => make("div", { class: "axes" }, ...parts.filter(Boolean).map((part) => make("span", {}, part)));

function gridAxes({ cols, rows, fold, lines, banks, rows_of_bank, col, row }) {
  const folded = lines > 1 ? `, folded every ${fold}` : "", banked = banks > 1 ? `, ${rows_of_bank} in a column` : "";
  return axes(cols > 1 && `→ ${col}${folded}`, rows > 1 && `↓ ${row}${banked}`);
}

function mapAxes() {
  const [first] = map.sections, down = map.sections.length > 1 ? isTrace ? `top to bottom: ${operands}` : map.sections.map((s, i) => `${i ? "below" : "above"} ${s.name}${s.lines > 1 ? ` by ${s.line}` : ""}`).join(", ") : first.lines > 1 && `↓ ${first.line}`;
  return axes(map.steps > 1 && `→ ${map.step}`, down);
}

function panelOf(s, i) {
  const number = (id, label) => make("div", {}, make("dt", {}, label), make("dd", { "data-live": id }));
  const canvas = make("canvas", { class: "tiles", tabindex: 0, role: "img", "aria-label": `${s.name}: ${s.grid.rows} by ${s.grid.cols} tiles, coloured as they are visited` });
  const keys = make("ul", { class: "keys" }), cacheBox = make("div", { class: "cache" }, make("h4", {}, `The L2: what it holds of ${operands}`), cacheKeys(isTrace));
  const panel = make("section", { class: "panel card", id: `panel-${i}`, "data-of": i, "aria-label": s.name }, make("h3", {}, ...nameOf(s, i)), make("p", { class: "how" }, how(s)),
    make("dl", { class: "numbers" }, number("hit_rate", "hits so far"), number("misses", "missed sectors"), number("dram", "from DRAM"),
      s.simulation.added_sectors > 0 && make("div", {}, make("dt", {}, "added sectors"), make("dd", {}, count(s.simulation.added_sectors)))),
    make("div", {}, canvas), gridAxes(s.grid), keys, cacheBox);
  by("panels").append(panel);
  const cache = new Cache(cacheBox, s, data), tiles = new Tiles(canvas, s, data);
  cacheBox.append(mapAxes());
  const colour = (what) => {
    tiles.colourBy = what;
    tiles.reset();
    keys.replaceChildren(...tileKeys(what, data));
  };
  colour("position");
  return { panel, tiles, cache, colour };
}

function pictures(id, build) {
  return schedules.map((s, i) => {
    const box = make("figure", { class: "card", "data-of": i }, make("h3", {}, ...nameOf(s, i), make("small", { class: "quiet" }, `${count(missesOf(s))} misses`)));
    by(id).append(box);
    return build(box, s);
  });
}

// What came out, a column for each schedule; every number has the key that it has in the JSON.
function costTable() {
  const rows = [["misses", "l2.misses", whole], ["read from DRAM", "dram.read_bytes", size], ["written", "dram.write_bytes", size], ["time", "predicted.seconds", duration],
    [data.schedules.some((s) => s.simulation.predicted.tflops >= 0.1) ? "TFLOP/s" : "", "predicted.tflops", (v) => digits(v, v < 10 ? 2 : 1)], ["L2 hits", "l2.hit_rate", (v) => percent(v, 2)], ["L2 sectors", "l2.sectors", whole],
    [machine.domains > 1 && "fabric sectors", "fabric.sectors", whole]].filter(([name]) => name);
  const value = (object, path) => path.split(".").reduce((o, k) => o[k], object), name = (text) => make("th", { scope: "row" }, text);
  const cell = (s, path, text) => make("td", { "data-schedule": s.name, "data-key": path, "data-value": value(s.simulation, path) }, text(value(s.simulation, path)));
  const known = schedules.every((s) => s.bound);
  by("cost").append(make("thead", {}, make("tr", {}, make("td", {}), ...schedules.map((s, i) => make("th", { scope: "col" }, ...nameOf(s, i))))),
    make("tbody", {}, ...rows.map(([text, path, format]) => make("tr", {}, name(text), ...schedules.map((s) => cell(s, path, format)))),
      known && make("tr", {}, name("what takes the time"), ...schedules.map((s) => make("td", {}, boundOf(s, machine))))));
}

function show(time) {
  schedules.forEach((s, i) => {
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
  for (const chart of charts.timed) chart.cursor(time / charts.unit);
  for (const picture of [...held, ...reuse]) picture.draw(time);
}

function redraw() {
  for (const { tiles } of panels) tiles.reset();
  for (const picture of held) picture.reset();
  for (const chart of charts.all) chart.draw();
  player.to(player.time);
}

writeTexts();
if (differInSweepOnly()) by("panels-section").before(by("held-section"));
const panels = schedules.map(panelOf);
const charts = startCurves(data, longest);
const held = attention ? pictures("held", (box, s) => new Held(box, s, longest)) : [];
by("held-section").hidden = !attention;
const reuse = pictures("reuse", (box, s) => new Reuse(box, s, data, longest));
costTable();
const choices = [["position", "position"], ...(machine.domains > 1 ? [["domain", machine.domain]] : []), ["misses", "misses"]];
by("colour").append(...choices.map(([value, text]) => make("option", { value }, text)));
const player = new Player(longest, schedules[0].trace.frames, show);
by("colour").addEventListener("change", (event) => {
  for (const panel of panels) panel.colour(event.target.value);
  show(player.time);
});
startTabs(schedules, redraw);
startTheme(redraw);
startWidth(redraw);
if (!matchMedia("(prefers-reduced-motion: reduce)").matches) player.toggle();
