/* SPDX-License-Identifier: Apache-2.0 */
// Numbers and colours as people read them.

const KIBI = 1024, MEBI = KIBI * KIBI;
const digits = (value, places) => value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
const whole = (value) => digits(value, 0).replaceAll(",", "\u202f");

function count(value) {
  for (const [unit, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= unit) return `${digits(value / unit, value / unit < 10 ? 2 : 1)} ${name}`;
  }
  return digits(value, 0);
}

const portion = (share) => `${100 * share}%`; // for style sheets
const percent = (share, places = 1) => `${digits(100 * share, places)} %`;

function size(bytes) {
  for (const [unit, name] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (bytes >= unit) return `${digits(bytes / unit, bytes / unit < 100 ? 2 : 0)} ${name}`;
  }
  return `${bytes} B`;
}

function binarySize(bytes) {
  for (const [unit, name] of [[MEBI * KIBI, "GiB"], [MEBI, "MiB"], [KIBI, "KiB"]]) {
    if (bytes >= unit) return `${+(bytes / unit).toPrecision(3)} ${name}`;
  }
  return `${bytes} B`;
}

const unitOf = (seconds) => (seconds >= 1 ? [1, "s"] : seconds >= 1e-3 ? [1e-3, "ms"] : [1e-6, "µs"]);

function duration(seconds, of = seconds) {
  for (const [unit, name] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) {
    if (of >= unit || unit === 1e-6) return `${digits(seconds / unit, of / unit < 10 ? 3 : of / unit < 100 ? 2 : 1)} ${name}`;
  }
}

const timesText = (times) => digits(times, times < 10 ? 1 : 0);
const plural = (n, word) => `${whole(n)} ${word}${n === 1 ? "" : "s"}`;
const hex = (colour) => `#${colour.toString(16).padStart(6, "0")}`;
const colourOf = (i) => `var(--schedule-${i % 8})`; // of a schedule; states have colours of their own
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// An element: tag, attributes, children; false and "" are left out.
function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "line", "rect", "text", "polyline", "circle", "title"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== false && child !== ""));
  return element;
}

// Light or dark: what the system prefers, until the button is pressed.
function startTheme(redraw) {
  const dark = matchMedia("(prefers-color-scheme: dark)"), button = document.getElementById("theme");
  let chosen = null;
  const apply = () => {
    const theme = chosen ?? (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    redraw();
  };
  button.addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    apply();
  });
  dark.addEventListener("change", apply);
  apply();
}

// A canvas at the screen's own resolution: sets its size in CSS pixels and returns its context.
function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const w = Math.round(width * ratio), h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

// [red, green, blue] of a colour from the style sheet or of a number.
function rgb(colour) {
  const number = typeof colour === "number" ? colour : parseInt(colour.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}

// One tip for the page.
function showTip(text, x, y) {
  const tip = document.getElementById("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(12, Math.min(x + 14, innerWidth - box.width - 12))}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(8, y - box.height - 14) : y + 18}px`;
}

// Calls `redraw` when the window has another width.
function startWidth(redraw) {
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    redraw();
  });
}
