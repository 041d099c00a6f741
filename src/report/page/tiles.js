/* SPDX-License-Identifier: Apache-2.0 */
// The grid of tiles: who is where, and what was done when.

class Tiles {
  constructor(canvas, schedule, data) {
    this.canvas = canvas;
    this.schedule = schedule;
    this.data = data;
    this.grid = schedule.grid;
    this.lines = this.grid.rows_of_bank * this.grid.lines;
    this.wide = this.grid.fold * this.grid.banks;
    this.image = document.createElement("canvas");
    this.image.width = this.wide;
    this.image.height = this.lines;
    this.visitOf = new Int32Array(this.grid.rows * this.grid.cols).fill(-1);
    const { visit, visits } = schedule.trace;
    for (let i = 0; i < visits; i++) for (const tile of this.tilesOf(i)) this.visitOf[tile] = i;
    this.byEnd = Array.from({ length: visits }, (_, i) => i);
    this.mostMissed = visits ? visit.misses.reduce((most, m) => Math.max(most, m), 1) : 1;
    this.colourBy = "position";
    this.focus = 0;
    this.reset();
    this.listen();
  }

  // The tiles of a visit: one, or those of a cluster.
  tilesOf(visit) {
    const [rows, cols] = this.grid.cluster, first = this.schedule.trace.visit.tile[visit];
    const list = [];
    for (let r = 0; r < rows; r++) for (let c = 0; c < cols; c++) list.push(first + r * this.grid.cols + c);
    return list;
  }

  // Column and line of a tile in the picture: long rows are folded into lines, many short ones stand in banks side by side.
  placeOf(tile) {
    const { cols, fold, lines, rows_of_bank } = this.grid, row = Math.floor(tile / cols), col = tile % cols;
    return [Math.floor(row / rows_of_bank) * fold + (col % fold), (row % rows_of_bank) * lines + Math.floor(col / fold)];
  }

  tileAt(col, line) {
    if (col < 0 || col >= this.wide || line < 0 || line >= this.lines) return -1;
    const { rows, cols, fold, lines, rows_of_bank } = this.grid;
    const row = Math.floor(col / fold) * rows_of_bank + Math.floor(line / lines), at = (line % lines) * fold + (col % fold);
    return at < cols && row < rows ? row * cols + at : -1;
  }

  reset() {
    const context = this.image.getContext("2d");
    this.pixels = context.createImageData(this.wide, this.lines);
    const [r, g, b] = rgb(css("--empty"));
    for (let tile = 0; tile < this.visitOf.length; tile++) this.paint(tile, r, g, b);
    this.begun = 0;
    this.time = 0;
  }

  paint(tile, r, g, b) {
    const [col, line] = this.placeOf(tile), at = 4 * (line * this.wide + col);
    this.pixels.data.set([r, g, b, 255], at);
  }

  colourOf(visit) {
    const { ramp, categories } = this.data, { visit: v, domain_of } = this.schedule.trace;
    if (this.colourBy === "domain") return categories[domain_of[v.worker[visit]] % categories.length];
    const share = this.colourBy === "misses" ? v.misses[visit] / this.mostMissed : v.position[visit] / Math.max(1, this.grid.positions - 1);
    return ramp[Math.round(share * (ramp.length - 1))];
  }

  // Paints everything that has begun at `time`; visits are in the order of their beginning.
  advance(time) {
    if (time < this.time) this.reset();
    const { visit, visits } = this.schedule.trace;
    for (; this.begun < visits && visit.begin[this.begun] <= time; this.begun++) {
      const [r, g, b] = rgb(this.colourOf(this.begun));
      for (const tile of this.tilesOf(this.begun)) this.paint(tile, r, g, b);
    }
    this.time = time;
  }

  measure() {
    this.width = this.canvas.parentElement.clientWidth;
    this.cell = Math.min(this.width / this.wide, 292 / this.lines);
    this.gap = this.grid.lines > 1 && this.grid.rows > 1 && this.grid.banks === 1 ? Math.min(6, 70 / this.grid.rows) : 0;
    this.drawnWidth = this.cell * this.wide;
    this.height = this.cell * this.lines + this.gap * (this.grid.rows_of_bank - 1);
  }

  yOf(line) {
    return line * this.cell + this.gap * Math.floor(line / this.grid.lines);
  }

  draw(time) {
    if (!this.canvas.offsetParent) return; // of a schedule that is not shown
    this.advance(time);
    this.measure();
    const context = prepare(this.canvas, this.drawnWidth, this.height), { cell, grid } = this;
    this.canvas.style.width = `${this.drawnWidth}px`;
    this.image.getContext("2d").putImageData(this.pixels, 0, 0);
    context.clearRect(0, 0, this.drawnWidth, this.height);
    context.imageSmoothingEnabled = false;
    for (let row = 0; row < (this.gap ? grid.rows : 1); row++) {
      const lines = this.gap ? grid.lines : this.lines;
      context.drawImage(this.image, 0, row * lines, this.wide, lines, 0, this.yOf(row * lines), cell * this.wide, cell * lines);
    }
    if (cell >= 7) this.rule(context);
    this.drawWorkers(context, time);
  }

  // Thin lines between tiles that are large enough to be told apart.
  rule(context) {
    context.fillStyle = css("--card");
    for (let c = 1; c < this.wide; c++) context.fillRect(c * this.cell - 0.5, 0, 1, this.height);
    for (let l = 1; l < this.lines; l++) context.fillRect(0, this.yOf(l) - 0.5, this.drawnWidth, 1);
  }

  drawWorkers(context, time) {
    const { trace } = this.schedule, side = Math.max(3, this.cell);
    const ink = css("--ink"), card = css("--card");
    for (let w = 0; w < trace.workers; w++) {
      const visit = visitAt(trace, w, time);
      if (visit < 0 || trace.visit.begin[visit] + trace.visit.length[visit] <= time) continue;
      for (const tile of this.tilesOf(visit)) {
        const [col, line] = this.placeOf(tile), x = (col + 0.5) * this.cell, y = this.yOf(line) + 0.5 * this.cell;
        context.fillStyle = card;
        context.fillRect(x - side / 2, y - side / 2, side, side);
        context.fillStyle = ink;
        const inner = side > 5 ? side - 2 : side * 0.8;
        context.fillRect(x - inner / 2, y - inner / 2, inner, inner);
      }
    }
  }

  // What is known of a tile, in words.
  tell(tile) {
    const { grid, schedule, data } = this, { trace } = schedule, p = data.problem;
    const row = Math.floor(tile / grid.cols), col = tile % grid.cols, visit = this.visitOf[tile];
    const batch = Math.floor(row / grid.rows_of_batch), head = row % grid.rows_of_batch;
    const isTrace = p.kind === "trace", batched = p.kind.startsWith("attention") && p.batch > 1;
    const where = [grid.rows > 1 && (batched ? `batch ${batch}, ${grid.row} ${head}` : `${grid.row} ${row}`), (grid.cols > 1 || grid.rows === 1) && `${grid.col} ${col}`];
    const name = where.filter(Boolean).join(", ");
    if (visit < 0) return name;
    const v = trace.visit, worker = v.worker[visit], domain = trace.domain_of[worker], steps = v.steps[visit];
    const range = steps === 0 ? "none" : steps === 1 ? `${v.first[visit]}` : `${v.first[visit]} ${v.last[visit] < v.first[visit] ? "down" : "up"} to ${v.last[visit]}`;
    const lines = trace.map.sections.map((s, i) => ({ ...s, at: v[`line${i}`]?.[visit] ?? -1 })).filter((s) => s.at >= 0);
    const reads = isTrace ? plural(steps, "step")
      : `reads ${lines.map((s) => `${s.name}${s.lines > 1 ? ` of ${s.line} ${s.at}` : ""}`).join(" and ")}, ${trace.map.step}${steps === 1 ? "" : "s"} ${range}`;
    const share = v.lookups[visit] ? v.misses[visit] / v.lookups[visit] : 0;
    return `${name}\nposition ${whole(v.position[visit])}, worker ${worker}${data.machine.domains > 1 ? ` on ${data.machine.domain} ${domain}` : ""}\n${reads}\n` +
      `${duration(v.begin[visit], trace.seconds)} to ${duration(v.begin[visit] + v.length[visit], trace.seconds)}: ${count(v.lookups[visit])} sectors looked up, ${percent(share)} missed`;
  }

  listen() {
    const point = (event) => {
      const box = this.canvas.getBoundingClientRect(), row = grid.rows, y = event.clientY - box.top;
      let line = Math.floor(y / this.cell);
      if (this.gap) {
        const block = this.cell * grid.lines + this.gap, at = Math.min(row - 1, Math.floor(y / block));
        line = at * grid.lines + Math.floor((y - at * block) / this.cell);
      }
      const tile = this.tileAt(Math.floor((event.clientX - box.left) / this.cell), line);
      if (tile >= 0) this.focus = tile;
      showTip(tile < 0 ? "" : this.tell(tile), event.clientX, event.clientY);
    };
    const { grid } = this;
    this.canvas.addEventListener("pointermove", point);
    this.canvas.addEventListener("pointerdown", point);
    this.canvas.addEventListener("pointerleave", () => showTip(""));
    this.canvas.addEventListener("blur", () => showTip(""));
    this.canvas.addEventListener("focus", () => this.canvas.matches(":focus-visible") && this.tellFocus());
    this.canvas.addEventListener("keydown", (event) => {
      const move = { a: [-1, 0], d: [1, 0], w: [0, -1], s: [0, 1] }[event.key.toLowerCase()];
      if (!move || event.ctrlKey || event.metaKey || event.altKey) return;
      const [col, line] = this.placeOf(this.focus), tile = this.tileAt(col + move[0], line + move[1]);
      if (tile >= 0) this.focus = tile;
      this.tellFocus();
      event.preventDefault();
    });
  }

  tellFocus() {
    const [col, line] = this.placeOf(this.focus), box = this.canvas.getBoundingClientRect();
    showTip(this.tell(this.focus), box.left + (col + 0.5) * this.cell, box.top + this.yOf(line) + this.cell);
  }
}
