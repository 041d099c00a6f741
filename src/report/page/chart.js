/* SPDX-License-Identifier: Apache-2.0 */
// Line charts, plain SVG, drawn anew at each width so that type keeps its size.

// About `wanted` round steps from `least` to `most`.
function ticksTo(most, wanted, least = 0) {
  const rough = (most - least) / wanted, power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 2.5, 5, 10].find((s) => s * power >= rough) * power;
  const list = [];
  for (let i = Math.ceil(least / step); i * step <= most * 1.0001; i++) list.push(+(i * step).toPrecision(12));
  return list;
}

// Heights for labels that stand at `wanted` or as near to it as `apart` allows, between `top` and `bottom`.
function spreadOut(wanted, apart, top, bottom) {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b]), at = [...wanted];
  let least = top;
  for (const i of order) {
    at[i] = Math.max(at[i], least);
    least = at[i] + apart;
  }
  let most = bottom;
  for (const i of [...order].reverse()) {
    at[i] = Math.min(at[i], most);
    most = at[i] - apart;
  }
  return at;
}

// `spec`: {title, describe, xLabel, yLabel, xMost, yMost, yLeast, xText, yText, height, series: [{name, colour, dash, points: [[x, y]],
// dots, end, endAt}], mark: {x, text}}. `end` stands at the end of a line, or at the height endAt, behind its name; on narrow screens
// names are in the keys below, as those of lines without `end` are. Returns {draw, cursor}.
function lineChart(parent, spec) {
  const figure = make("figure", { class: "chart" });
  const ended = spec.series.filter((s) => s.end !== undefined && s.points.length);
  let place = null, cursorAt = null;

  function draw() {
    const width = Math.max(260, Math.floor(parent.clientWidth - horizontalPadding(parent))), height = spec.height ?? 280;
    const narrow = width < 460, endOf = (s) => (narrow ? s.end : `${s.name} ${s.end}`);
    const keyed = spec.series.filter((s) => s.name && (narrow || s.end === undefined));
    const room = ended.length ? Math.max(...ended.map((s) => endOf(s).length)) * 7.3 + 18 : 14;
    const left = 52, right = Math.min(room, width * 0.5), top = 34, bottom = 46;
    const x = (v) => left + ((width - left - right) * v) / spec.xMost;
    const least = spec.yLeast ?? 0, y = (v) => top + (height - top - bottom) * (1 - (Math.max(v, least) - least) / (spec.yMost - least));
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": spec.describe });
    const text = (attributes, words) => svg.append(make("text", attributes, words));
    text({ class: "title", x: 0, y: 14 }, spec.yLabel);
    for (const v of ticksTo(spec.yMost, 5, least)) {
      svg.append(make("line", { class: v > least ? "rule" : "axis", x1: left, x2: width - right, y1: y(v), y2: y(v) }));
      text({ x: left - 8, y: y(v) + 4, "text-anchor": "end" }, spec.yText(v));
    }
    for (const v of ticksTo(spec.xMost, narrow ? 4 : 7)) {
      svg.append(make("line", { class: "axis", x1: x(v), x2: x(v), y1: height - bottom, y2: height - bottom + 5 }));
      text({ x: x(v), y: height - bottom + 20, "text-anchor": "middle" }, spec.xText(v));
    }
    text({ x: width - right, y: height - 6, "text-anchor": "end" }, spec.xLabel);
    for (const s of spec.series) {
      if (s.dots) {
        for (const [px, py] of s.points) svg.append(make("circle", { cx: x(px), cy: y(py), r: 4.5, style: `fill: ${s.colour}` }));
      } else {
        const points = s.points.map(([px, py]) => `${x(px).toFixed(1)},${y(py).toFixed(1)}`).join(" ");
        svg.append(make("polyline", { class: "series", style: `stroke: ${s.colour}; stroke-dasharray: ${s.dash ?? "none"}`, points }));
      }
    }
    const ends = ended.map((s) => s.points[s.points.length - 1]), heights = spreadOut(ended.map((s, i) => y(s.endAt ?? ends[i][1])), 16, top, height - bottom);
    ended.forEach((s, i) => {
      const at = width - right + 12;
      svg.append(make("path", { class: "leader", style: `stroke: ${s.colour}`, d: s.endAt === undefined ? `M${x(ends[i][0])} ${y(ends[i][1])}L${at - 4} ${heights[i]}` : `M${at - 9} ${heights[i]}h6` }));
      text({ class: "end", x: at, y: heights[i] + 4 }, endOf(s));
    });
    if (spec.mark && spec.mark.x <= spec.xMost) {
      const at = x(spec.mark.x), flip = at > width * 0.5;
      svg.append(make("line", { class: "mark", x1: at, x2: at, y1: top - 6, y2: height - bottom }));
      text({ class: "end", x: at + (flip ? -7 : 7), y: top + 1, "text-anchor": flip ? "end" : "start" }, spec.mark.text);
    }
    const line = make("line", { class: "cursor", y1: top, y2: height - bottom, visibility: "hidden" });
    svg.append(line);
    place = (v) => {
      cursorAt = v;
      if (v === null) return;
      line.setAttribute("x1", x(Math.min(v, spec.xMost)));
      line.setAttribute("x2", x(Math.min(v, spec.xMost)));
      line.setAttribute("visibility", "visible");
    };
    place(cursorAt);
    figure.replaceChildren(svg, keysOf(...keyed.map((s) => keyItem(swatch(s.colour, s.dots ? "dot" : "line"), s.name))));
    if (spec.title) figure.prepend(make("h3", {}, spec.title));
  }
  parent.append(figure);
  draw();
  return { draw, cursor: (v) => place(v) };
}

function horizontalPadding(element) {
  const style = getComputedStyle(element);
  return parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
}
