/* SPDX-License-Identifier: Apache-2.0 */
// Work over several GPUs: a timeline for each way to share it, in step.

const data = JSON.parse(document.getElementById("data").textContent), { ways } = data, by = (id) => document.getElementById(id);
const predicted = (way) => way.simulation.predicted, longest = Math.max(...ways.map((way) => predicted(way).seconds));
const problem = ways[0].simulation.problem, gpus = ways[0].simulation.ranks.ranks, parts = 1 + Math.max(0, ...ways.flatMap((way) => way.bars.map((bar) => bar[1])));
const colourOfPart = (part) => hex(data.ramp[Math.round((part / Math.max(1, parts - 1)) * (data.ramp.length - 1))]);

function headline() {
  const [best, worst] = [...ways].sort((a, b) => predicted(a).seconds - predicted(b).seconds), strong = (way) => strongName(way.name, ways.indexOf(way)), ideal = `${percent(predicted(best).efficiency, 0)} of ideal`;
  if (!worst) return [strong(best), `: ${ideal}`];
  const times = predicted(worst).seconds / predicted(best).seconds;
  if (times < 1.01) return [`The same predicted time either way: ${ideal}`];
  return [times < 1.3 ? `${percent(1 - 1 / times, 0)} less predicted time with ` : `Predicted ${timesText(times)} times faster with `, strong(best), " than with ", strong(worst), `: ${ideal}`];
}

// Rows of bars up to `time`, and how many GPUs compute then.
class Timeline {
  constructor(way, i) {
    this.way = way;
    this.canvas = make("canvas", { class: "timeline", role: "img", "aria-label": `${way.name}: when each GPU computes with whose keys` });
    this.busy = make("dd");
    const number = (label, value) => make("div", {}, make("dt", {}, label), value);
    const keys = keysOf(make("li", {}, "keys of GPU 0", ramp(data.ramp), `GPU ${parts - 1}`), keyItem(swatch("var(--empty)"), "waits"));
    by("panels").append(make("section", { class: "panel card", id: `panel-${i}`, "data-of": i, "aria-label": way.name }, make("h3", {}, ...nameOf(way, i)),
      make("p", { class: "how" }, `cut ${way.simulation.ranks.cut}, exchange ${way.simulation.ranks.exchange}, order ${way.simulation.ranks.order}; ${plural(way.simulation.steps, "step")}`),
      make("dl", { class: "numbers" }, number("computing now", this.busy), number("of ideal", make("dd", {}, percent(predicted(way).efficiency, 0))), number("in all", make("dd", {}, duration(predicted(way).seconds)))), this.canvas, keys));
    for (const event of ["pointermove", "pointerdown"]) this.canvas.addEventListener(event, (e) => this.point(e));
    this.canvas.addEventListener("pointerleave", () => showTip(""));
  }

  draw(time) {
    const { bars } = this.way, now = bars.filter(([, , begin, end]) => begin <= time && time < end).length;
    this.busy.textContent = `${now} of ${gpus}`;
    this.busy.dataset.value = now;
    if (!this.canvas.offsetParent) return; // of a way that is not shown
    const left = 30, bottom = 26, width = this.canvas.parentElement.clientWidth - horizontalPadding(this.canvas.parentElement), row = Math.max(4, Math.min(26, 320 / gpus));
    const context = prepare(this.canvas, width, gpus * row + bottom), scale = (this.scale = (width - left) / longest);
    Object.assign(this, { left, row });
    context.clearRect(0, 0, width, gpus * row + bottom);
    context.fillStyle = css("--empty");
    for (let gpu = 0; gpu < gpus; gpu++) context.fillRect(left, gpu * row, predicted(this.way).seconds * scale, row - 1);
    for (const [gpu, part, begin, end] of bars) {
      context.globalAlpha = begin <= time ? 1 : 0.25;
      context.fillStyle = colourOfPart(part);
      context.fillRect(left + begin * scale, gpu * row, Math.max(1, (end - begin) * scale - 0.5), row - 1);
    }
    context.globalAlpha = 1;
    context.fillStyle = css("--quiet");
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (let gpu = 0; gpu < gpus; gpu += Math.ceil(14 / row)) context.fillText(gpu, left - 6, (gpu + 0.5) * row);
    const [unit, name] = unitOf(longest);
    for (const t of ticksTo(longest / unit, 4)) {
      const x = left + t * unit * scale;
      context.textAlign = x > width - 30 ? "right" : "center";
      context.fillText(t ? `${+t.toPrecision(4)} ${name}` : "0", x, gpus * row + 15);
    }
    context.fillStyle = css("--ink");
    context.fillRect(left + Math.min(time, longest) * scale - 1, 0, 2, gpus * row);
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect(), gpu = Math.floor((event.clientY - box.top) / this.row), time = (event.clientX - box.left - this.left) / this.scale;
    const bar = this.way.bars.find((b) => b[0] === gpu && b[2] <= time && time < b[3]), inside = gpu < gpus && time >= 0 && time <= predicted(this.way).seconds;
    showTip(bar ? `GPU ${gpu} computes with the keys of GPU ${bar[1]}\n${duration(bar[2], longest)} to ${duration(bar[3], longest)}` : inside ? `GPU ${gpu} waits` : "", event.clientX, event.clientY);
  }
}

function costTable() {
  const rows = [["time", (p) => duration(p.seconds)], ["of ideal", (p) => percent(p.efficiency)], ["TFLOP/s a GPU", (p) => digits(p.tflops, 1)], ["a GPU computes", (p) => duration(p.computing.mean)], ["waits, in the mean", (p) => duration(p.waiting.mean, p.seconds)],
    ["waits, at most", (p) => duration(p.waiting.most, p.seconds)], ["sends, in the mean", (p) => size(p.sent.mean)], ["of that between nodes", (p) => percent(p.network)], ["memory", (p) => size(p.memory)], ["most pairs over the mean", (p) => digits(p.imbalance, 3)]];
  by("cost").append(make("thead", {}, make("tr", {}, make("td", {}), ...ways.map((way, i) => make("th", { scope: "col" }, ...nameOf(way, i))))),
    make("tbody", {}, ...rows.map(([name, text]) => make("tr", {}, make("th", { scope: "row" }, name), ...ways.map((way) => make("td", {}, text(predicted(way))))))));
}

const title = `Attention${problem.causal ? ", causal" : ""}, ${plural(problem.heads, "head")} of ${problem.head_dim}, ${whole(problem.seq)} queries and ${whole(problem.kv_seq)} keys, ${problem.dtype}, over ${gpus} GPUs`;
document.title = `${title}: weft`;
by("title").append(...headline());
by("lead").append(make("b", {}, title), ` (${data.machine}). Predicted, not measured.`);
by("footer").append(make("p", {}, "Made by ", make("code", {}, data.command), ` with weft ${data.weft}.`));
const timelines = ways.map((way, i) => new Timeline(way, i));
costTable();
const player = new Player(longest, 240, (time) => timelines.forEach((timeline) => timeline.draw(time)));
const redraw = () => player.to(player.time);
startTabs(ways, redraw);
startTheme(redraw);
startWidth(redraw);
if (!matchMedia("(prefers-reduced-motion: reduce)").matches) player.toggle();
