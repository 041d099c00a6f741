/* SPDX-License-Identifier: Apache-2.0 */
// What is predicted for one problem on several machines: a card for each, orders down.

const spreadOf = (schedules, value) => Math.max(...schedules.map(value)) / Math.min(...schedules.map(value));
const headOf = (...names) => make("thead", {}, make("tr", {}, ...names.map((name) => (name ? make("th", { scope: "col" }, name) : make("td", {})))));

// Whether schedules differ in their sweeps, too: those of attention do.
const hasSweeps = (m) => new Set(m.schedules.map((s) => s.sweep)).size > 1;

// What a machine's schedules differ in: what they read from DRAM, or, where a last-level cache hides that, what the L2s miss.
function metricOf({ schedules }) {
  const dram = { name: "read from DRAM", value: (s) => s.dram_read_bytes, text: (s) => size(s.dram_read_bytes) };
  const metric = spreadOf(schedules, dram.value) > 1.03 ? dram : { name: "L2 misses", value: (s) => s.misses, text: (s) => count(s.misses) };
  return { ...metric, least: Math.min(...schedules.map(metric.value)), fastest: Math.min(...schedules.map((s) => s.seconds)) };
}

// Tinted where it is more than the least: fully at eight times as much.
function cell(s, metric) {
  if (!s) return make("td", {}, "–");
  const share = metric.value(s) / metric.least, tint = Math.round(Math.min(1, Math.log2(share) / 3) * 46);
  const title = `${percent(s.hit_rate, 2)} hits, ${count(s.misses)} misses, ${size(s.dram_read_bytes)} from DRAM, ${count(s.fabric_sectors)} sectors over the fabric, ${digits(s.tflops, 0)} TFLOP/s`;
  return make("td", { style: `background: color-mix(in srgb, var(--much) ${tint}%, var(--card))`, class: share <= 1.005 ? "best" : "", title }, metric.text(s));
}

// The time of the schedule, tinted alike; it is what the misses are for.
const timeCell = (s, metric) => make("td", { class: s.seconds <= 1.005 * metric.fastest ? "fast" : "" }, duration(s.seconds, metric.fastest));

function machineCard(m, table) {
  return make("div", { class: "card" }, make("h3", {}, m.machine_title), make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${m.machine_title}: ${m.subject}` }, table));
}

// Orders down, sweeps across; the time is that of the fastest sweep, since all of an order take about as long.
function attentionTables(machines) {
  const list = machines.filter(hasSweeps), sweeps = ["forward", "sawtooth", "pair"];
  const text = `${list[0].title}, tiles of ${list[0].tile.join("×")}: what is read from DRAM (or missed in the L2s) by each sweep, and the least predicted time of the three. Tinted where more is read; the least is framed.`;
  document.getElementById("attention-text").textContent = text;
  for (const m of list) {
    const orders = [...new Set(m.schedules.map((s) => s.order))].sort(), metric = metricOf(m), of = (o, w) => m.schedules.find((s) => s.order === o && s.sweep === w);
    const quickest = (o) => m.schedules.filter((s) => s.order === o).sort((a, b) => a.seconds - b.seconds)[0];
    const table = make("table", { class: "heat", "data-machine": m.machine }, make("caption", {}, metric.name), headOf("order", ...sweeps, "time"),
      make("tbody", {}, ...orders.map((o) => make("tr", {}, make("th", { scope: "row" }, o), ...sweeps.map((w) => cell(of(o, w), metric)), timeCell(quickest(o), metric)))));
    document.getElementById("attention").append(machineCard(m, table));
  }
}

function gemmTables(machines) {
  const list = machines.filter((m) => !hasSweeps(m));
  document.getElementById("gemm-text").textContent = `${list[0].title}, tiles of ${list[0].tile.join("×")}. Tinted where more is read; the least is framed.`;
  for (const m of list) {
    const metric = metricOf(m), rows = [...m.schedules].sort((a, b) => a.order.localeCompare(b.order));
    const table = make("table", { class: "heat", "data-machine": m.machine }, headOf("order", metric.name, "time", "TFLOP/s"),
      make("tbody", {}, ...rows.map((s) => make("tr", {}, make("th", { scope: "row" }, s.order), cell(s, metric), timeCell(s, metric), make("td", {}, digits(s.tflops, 0))))));
    document.getElementById("gemm").append(machineCard(m, table));
  }
}
