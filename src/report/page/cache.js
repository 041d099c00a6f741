/* SPDX-License-Identifier: Apache-2.0 */
// The L2s: what each holds of the operands, what came in just now, and where the workers read.

class Cache {
  constructor(parent, schedule, data) {
    this.schedule = schedule;
    this.data = data;
    const { trace } = schedule, { machine } = data;
    this.frame = -2;
    this.domains = [];
    const box = make("div", { class: machine.domains > 4 ? "domains many" : machine.domains > 1 ? "domains some" : "domains" });
    for (let d = 0; d < machine.domains; d++) {
      const canvas = make("canvas", { role: "img", "aria-label": `${machine.domain} ${d}: what it holds` });
      const share = make("span", {}), bar = make("div", { class: "bar" }, make("i"), make("i"));
      const label = make("div", { class: "label" }, machine.domains > 1 && make("span", {}, `${machine.domain} ${d}`), share);
      box.append(make("div", { class: "domain" }, label, canvas, bar));
      const image = document.createElement("canvas");
      image.width = trace.map.cols;
      image.height = trace.map.rows;
      this.domains.push({ canvas, share, bar, image });
      canvas.addEventListener("pointermove", (event) => this.point(d, event));
      canvas.addEventListener("pointerdown", (event) => this.point(d, event));
      canvas.addEventListener("pointerleave", () => showTip(""));
    }
    parent.append(box);
    this.capacity = (machine.l2_bytes * machine.l2_usable) / machine.sector;
  }

  // Height of a section's rows and the gap between sections, in CSS pixels.
  measure(width) {
    const { map } = this.schedule.trace, many = this.data.machine.domains > 1;
    const wanted = many ? 84 : 150;
    this.row = Math.max(1, Math.min(map.rows === 1 ? 44 : 26, wanted / map.rows));
    this.gap = map.sections.length > 1 ? 8 : 0;
    this.height = this.row * map.rows + this.gap * (map.sections.length - 1);
    this.cell = width / map.cols;
  }

  y(row) {
    const sections = this.schedule.trace.map.sections;
    return row * this.row + this.gap * (sections.filter((s) => row >= s.first_row).length - 1);
  }

  draw(time) {
    if (!this.domains[0].canvas.offsetParent) return; // of a schedule that is not shown
    const { trace } = this.schedule, frame = Math.max(0, frameAt(trace, time));
    for (let d = 0; d < this.domains.length; d++) this.drawDomain(d, frame);
    this.frame = frame;
  }

  drawDomain(d, frame) {
    const { trace } = this.schedule, { map } = trace, { canvas, image, share, bar } = this.domains[d];
    const width = canvas.parentElement.clientWidth;
    this.measure(width);
    const context = prepare(canvas, width, this.height), cells = map.rows * map.cols;
    const now = (frame * trace.domains + d) * cells, before = now - trace.domains * cells;
    const pixels = image.getContext("2d").createImageData(map.cols, map.rows);
    const empty = rgb(css("--empty")), held = rgb(css("--held")), miss = rgb(css("--miss"));
    for (let i = 0; i < cells; i++) {
      const level = trace.resident[now + i], old = frame > 0 ? trace.resident[before + i] : 0;
      const ink = level > old ? miss : held, part = level ? 0.3 + (0.7 * level) / map.full : 0;
      for (let c = 0; c < 3; c++) pixels.data[4 * i + c] = empty[c] + (ink[c] - empty[c]) * part;
      pixels.data[4 * i + 3] = 255;
    }
    image.getContext("2d").putImageData(pixels, 0, 0);
    context.clearRect(0, 0, width, this.height);
    context.imageSmoothingEnabled = false;
    for (const s of map.sections) {
      context.drawImage(image, 0, s.first_row, map.cols, s.rows, 0, this.y(s.first_row), width, this.row * s.rows);
    }
    this.drawReaders(context, d, frame);
    const at = frame * trace.domains + d, streams = trace.counters.streams[at] / this.capacity, others = trace.counters.others[at] / this.capacity;
    bar.children[0].style.width = portion(streams);
    bar.children[1].style.width = portion(others);
    share.textContent = `${percent(streams + others, 0)}${trace.domains > 2 ? "" : " full"}`;
  }

  // The line that a visit reads of each section; -1: of a trace, whose steps may read any blocks.
  linesOf(visit) {
    const { line0, line1 } = this.schedule.trace.visit;
    return [line0[visit], line1[visit]];
  }

  drawReaders(context, d, frame) {
    const { trace } = this.schedule, { map } = trace, time = ((frame + 1) / trace.frames) * trace.seconds;
    const ink = css("--ink"), miss = css("--miss"), card = css("--card");
    const radius = Math.max(2, Math.min(4, this.row * 0.6));
    for (let w = d; w < trace.workers; w += trace.domains) {
      const coded = trace.place[frame * trace.workers + w], step = Math.floor(coded / 2) - 1, visit = visitAt(trace, w, time - 1e-15);
      if (step < 0 || visit < 0) continue;
      this.linesOf(visit).forEach((line, i) => {
        if (line < 0) return;
        const section = map.sections[i], y = this.y(section.first_row) + (Math.floor(line / map.lines_per_cell) + 0.5) * this.row;
        const x = ((step + 0.5) / map.steps) * this.cell * map.cols;
        context.beginPath();
        context.arc(x, y, radius, 0, 7);
        context.fillStyle = coded % 2 ? miss : ink;
        context.fill();
        context.lineWidth = 1;
        context.strokeStyle = card;
        context.stroke();
      });
    }
  }

  point(d, event) {
    const { trace } = this.schedule, { map } = trace, box = this.domains[d].canvas.getBoundingClientRect();
    const y = event.clientY - box.top, col = Math.floor((event.clientX - box.left) / this.cell);
    const section = [...map.sections].reverse().find((s) => y >= this.y(s.first_row));
    const row = section && section.first_row + Math.floor((y - this.y(section.first_row)) / this.row);
    if (!section || row >= section.first_row + section.rows || col < 0 || col >= map.cols || this.frame < 0) return showTip("");
    const level = trace.resident[((this.frame * trace.domains + d) * map.rows + row) * map.cols + col];
    const span = (first, each, most) => (each === 1 ? `${first}` : `${first * each} to ${Math.min(most, (first + 1) * each) - 1}`);
    const how = level === 0 ? "not here" : level === map.full ? "here" : "partly here";
    showTip(`${section.name}, ${section.line} ${span(row - section.first_row, map.lines_per_cell, section.lines)}, ${map.step} ${span(col, map.steps_per_cell, map.steps)}: ${how}`, event.clientX, event.clientY);
  }
}
