// Line charts, plain SVG, drawn anew at each width so that type keeps its size.

// About `wanted` round steps from `least` to `most`.
function ticksTo(most, wanted, least = 0) {
  const rough = (most - least) / wanted, power = 10 ** Math.floor(Math.log10(rough || 1));
  const step = [1, 2, 2.5, 5, 10].find((s) => s * power >= rough) * power;
  const list = [];
  for (let i = Math.ceil(least / step); i * step <= most * 1.0001; i++) list.push(+(i * step).toPrecision(12));
  return list;
}

// `spec`: {title, describe, xLabel, yLabel, xMost, yMost, yLeast, xText, yText, series: [{name, colour, points: [[x, y]], dots}],
// mark: {x, text}}. Returns {draw, cursor}.
function lineChart(parent, spec) {
  const figure = make("figure", { class: "chart" });
  const keys = make("ul", { class: "keys" });
  for (const s of spec.series) {
    const key = make("span", { class: "key" });
    key.style.background = s.colour;
    keys.append(make("li", {}, key, s.name));
  }
  let place = null, cursorAt = null;

  function draw() {
    const width = Math.max(260, Math.floor(parent.clientWidth - horizontalPadding(parent))), height = spec.height ?? 280;
    const left = 62, right = 14, top = 34, bottom = 46;
    const x = (v) => left + ((width - left - right) * v) / spec.xMost;
    const least = spec.yLeast ?? 0, y = (v) => top + (height - top - bottom) * (1 - (Math.max(v, least) - least) / (spec.yMost - least));
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": spec.describe });
    svg.append(make("text", { class: "title", x: 0, y: 14 }, spec.yLabel));
    for (const v of ticksTo(spec.yMost, 5, least)) {
      svg.append(make("line", { class: v > least ? "rule" : "axis", x1: left, x2: width - right, y1: y(v), y2: y(v) }));
      svg.append(make("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, spec.yText(v)));
    }
    for (const v of ticksTo(spec.xMost, width < 460 ? 4 : 7)) {
      const anchor = x(v) > width - right - 24 ? "end" : "middle";
      svg.append(make("line", { class: "axis", x1: x(v), x2: x(v), y1: height - bottom, y2: height - bottom + 5 }));
      svg.append(make("text", { x: anchor === "end" ? width - right : x(v), y: height - bottom + 20, "text-anchor": anchor }, spec.xText(v)));
    }
    svg.append(make("text", { x: width - right, y: height - 6, "text-anchor": "end" }, spec.xLabel));
    for (const s of spec.series) {
      if (s.dots) {
        for (const [px, py] of s.points) svg.append(make("circle", { cx: x(px), cy: y(py), r: 4, fill: s.colour, "fill-opacity": 0.75 }));
      } else {
        const points = s.points.map(([px, py]) => `${x(px).toFixed(1)},${y(py).toFixed(1)}`).join(" ");
        svg.append(make("polyline", { class: "series", stroke: s.colour, points }));
      }
    }
    if (spec.mark && spec.mark.x <= spec.xMost) {
      const at = x(spec.mark.x), flip = at > width * 0.6;
      svg.append(make("line", { class: "mark", x1: at, x2: at, y1: top - 6, y2: height - bottom }));
      svg.append(make("text", { x: at + (flip ? -7 : 7), y: top + 5, "text-anchor": flip ? "end" : "start", style: "fill: var(--ink)" }, spec.mark.text));
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
    figure.replaceChildren(svg, keys);
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
