/* SPDX-License-Identifier: Apache-2.0 */
// Two pictures with time to the right: what is held of the operands, and how far back the data was touched last.

function timeAxis(context, width, height, left, bottom, seconds) {
  context.fillStyle = css("--quiet");
  context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
  context.textBaseline = "top";
  const [unit, name] = unitOf(seconds);
  for (const t of ticksTo(seconds / unit, width < 460 ? 3 : 5)) {
    const x = left + ((width - left) * t * unit) / seconds;
    context.textAlign = x > width - 30 ? "right" : x < left + 10 ? "left" : "center";
    context.fillRect(x - 0.5, height - bottom, 1, 4);
    context.fillText(t ? `${+t.toPrecision(4)} ${name}` : "0", x, height - bottom + 8);
  }
}

function cursorLine(context, x, height) {
  context.fillStyle = css("--ink");
  context.fillRect(x - 1, 0, 2, height);
}

const JUST = 4; // frames in which something "came in just now", a sixtieth of the run

// Steps (key blocks, say) down, time to the right: filled where any line of any domain holds them, of another colour where they came in; one worker's way over it.
class Held {
  constructor(parent, schedule, longest) {
    this.schedule = schedule;
    this.longest = longest;
    this.canvas = make("canvas", { role: "img", "aria-label": `${schedule.name}: what the L2 holds through time` });
    parent.append(this.canvas);
    const { trace } = schedule, { map } = trace;
    this.level = new Uint8Array(trace.frames * map.cols);
    for (let f = 0; f < trace.frames; f++) {
      for (let r = 0; r < trace.domains * map.rows; r++) {
        for (let c = 0; c < map.cols; c++) {
          const level = trace.resident[(f * trace.domains * map.rows + r) * map.cols + c];
          if (level > this.level[f * map.cols + c]) this.level[f * map.cols + c] = level;
        }
      }
    }
    this.image = document.createElement("canvas");
    this.image.width = trace.frames;
    this.image.height = map.cols;
    this.reset();
  }

  // Paints the picture in the theme's colours.
  reset() {
    const { trace } = this.schedule, { map } = trace, empty = rgb(css("--empty")), held = rgb(css("--held")), miss = rgb(css("--miss"));
    const pixels = this.image.getContext("2d").createImageData(trace.frames, map.cols);
    for (let f = 0; f < trace.frames; f++) {
      for (let c = 0; c < map.cols; c++) {
        const level = this.level[f * map.cols + c], before = f >= JUST ? this.level[(f - JUST) * map.cols + c] : 0;
        const at = 4 * (c * trace.frames + f), ink = level > before ? miss : held, part = level ? 0.25 + (0.75 * level) / map.full : 0;
        for (let k = 0; k < 3; k++) pixels.data[at + k] = empty[k] + (ink[k] - empty[k]) * part;
        pixels.data[at + 3] = 255;
      }
    }
    this.image.getContext("2d").putImageData(pixels, 0, 0);
  }

  draw(time) {
    if (!this.canvas.offsetParent) return; // of a schedule that is not shown
    const { trace } = this.schedule, { map } = trace, left = 46, bottom = 28, height = 210;
    const width = this.canvas.parentElement.clientWidth - horizontalPadding(this.canvas.parentElement);
    const context = prepare(this.canvas, width, height), tall = height - bottom;
    context.clearRect(0, 0, width, height);
    const scale = (width - left) / this.longest, x = (seconds) => left + seconds * scale;
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image, left, 0, trace.seconds * scale, tall);
    this.drawWay(context, x, tall);
    timeAxis(context, width, height, left, bottom, this.longest);
    context.textAlign = "right";
    context.textBaseline = "top";
    context.fillText("0", left - 6, 0);
    context.textBaseline = "bottom";
    context.fillText(`${map.steps - 1}`, left - 6, tall);
    cursorLine(context, x(Math.min(time, this.longest)), tall);
  }

  // The way of worker 0. It jumps to where a tile begins.
  drawWay(context, x, tall) {
    const { trace } = this.schedule;
    let before = null;
    context.beginPath();
    for (let f = 0; f < trace.frames; f++) {
      const step = Math.floor(trace.place[f * trace.workers] / 2) - 1;
      if (step < 0) continue;
      const jumps = before === null || Math.abs(step - before) > 0.4 * trace.map.steps;
      context[jumps ? "moveTo" : "lineTo"](x(((f + 1) / trace.frames) * trace.seconds), ((step + 0.5) / trace.map.steps) * tall);
      before = step;
    }
    context.strokeStyle = css("--ink");
    context.lineWidth = 1.2;
    context.stroke();
  }
}

// Distances up (four bins to a doubling), time to the right, sectors as colour; the capacity as a line.
class Reuse {
  constructor(parent, schedule, data, longest) {
    Object.assign(this, { schedule, data, longest });
    this.canvas = make("canvas", { role: "img", "aria-label": `${schedule.name}: reuse distance through time` });
    parent.append(this.canvas);
    const { trace } = schedule, { bins } = trace.reuse;
    this.image = document.createElement("canvas");
    this.image.width = trace.frames;
    this.image.height = bins;
    const pixels = this.image.getContext("2d").createImageData(trace.frames, bins);
    for (let f = 0; f < trace.frames; f++) {
      for (let b = 0; b < bins; b++) {
        const level = trace.reuseData[f * (bins + 1) + b], at = 4 * ((bins - 1 - b) * trace.frames + f);
        const [r, g, blue] = rgb(data.ramp[Math.round((level / 255) * (data.ramp.length - 1))]);
        pixels.data.set([r, g, blue, level ? 255 : 0], at);
      }
    }
    this.image.getContext("2d").putImageData(pixels, 0, 0);
  }

  draw(time) {
    if (!this.canvas.offsetParent) return; // of a schedule that is not shown
    const { trace } = this.schedule, { reuse } = trace, left = 66, bottom = 28, height = 250;
    const width = this.canvas.parentElement.clientWidth - horizontalPadding(this.canvas.parentElement);
    const context = prepare(this.canvas, width, height), tall = height - bottom;
    context.clearRect(0, 0, width, height);
    const scale = (width - left) / this.longest;
    context.fillStyle = css("--empty");
    context.fillRect(left, 0, width - left, tall);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.image, left, 0, trace.seconds * scale, tall);
    timeAxis(context, width, height, left, bottom, this.longest);
    const y = (bytes) => tall * (1 - (4 * Math.log2(bytes / reuse.sector) - reuse.first) / reuse.bins);
    context.textAlign = "right";
    context.textBaseline = "middle";
    const least = reuse.sector * 2 ** (reuse.first / 4), most = reuse.sector * 2 ** ((reuse.first + reuse.bins) / 4);
    for (let power = Math.ceil(Math.log2(least)); 2 ** power <= most; power += reuse.bins > 40 ? 3 : 2) {
      const at = y(2 ** power);
      if (at > 7 && at < tall - 6) context.fillText(binarySize(2 ** power), left - 8, at);
    }
    const capacity = this.data.machine.l2_bytes * this.data.machine.l2_usable;
    if (capacity > least && capacity < most) {
      context.setLineDash([6, 4]);
      context.strokeStyle = css("--ink");
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(left, y(capacity));
      context.lineTo(width, y(capacity));
      context.stroke();
      context.setLineDash([]);
      const below = y(capacity) < 24, text = `capacity ${binarySize(capacity)}`;
      context.font = "600 12px system-ui, 'DejaVu Sans', sans-serif";
      const wide = context.measureText(text).width;
      context.fillStyle = css("--card");
      context.globalAlpha = 0.85;
      context.fillRect(width - wide - 14, y(capacity) + (below ? 5 : -22), wide + 10, 17);
      context.globalAlpha = 1;
      context.fillStyle = css("--ink");
      context.textAlign = "right";
      context.textBaseline = "middle";
      context.fillText(text, width - 9, y(capacity) + (below ? 14 : -13));
    }
    cursorLine(context, left + Math.min(time, this.longest) * scale, tall);
  }
}
