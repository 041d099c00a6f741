/* SPDX-License-Identifier: Apache-2.0 */
// Keys: what a colour or a mark means, beside the picture that it is in.

function swatch(colour, shape = "") {
  const key = make("span", { class: `key ${shape}` });
  key.style.background = colour;
  return key;
}

function ramp(colours) {
  const bar = make("span", { class: "ramp" });
  bar.style.background = `linear-gradient(90deg, ${colours.map(hex).join(",")})`;
  return bar;
}

const keyItem = (mark, text) => make("li", {}, mark, text);
const keysOf = (...items) => make("ul", { class: "keys" }, ...items.filter(Boolean));

// The name of a schedule with its colour.
const nameOf = (schedule, number) => [swatch(colourOf(number)), schedule.name];

// A schedule's name in a headline, in its colour.
function strongName(name, number) {
  const strong = make("strong", {}, name);
  strong.style.color = colourOf(number);
  return strong;
}

// What the colours of tiles mean, as chosen.
function tileKeys(what, data, schedule) {
  const ends = { position: ["first", "last tile of the order"], misses: ["no misses", "most"] }[what];
  const domain = (d) => keyItem(swatch(hex(data.categories[d % data.categories.length])), `${data.machine.domain} ${d}`);
  return [...(ends ? [make("li", {}, ends[0], ramp(data.ramp), ends[1])] : Array.from({ length: data.machine.domains }, (_, d) => domain(d))), keyItem(swatch("var(--ink)"), "a worker is here")];
}

const cacheKeys = (isTrace) => keysOf(keyItem(swatch("var(--held)"), "held"), keyItem(swatch("var(--miss)"), "came in just now"),
  !isTrace && keyItem(swatch("var(--ink)", "dot"), "worker that hits"), !isTrace && keyItem(swatch("var(--miss)", "dot"), "worker that misses"));
