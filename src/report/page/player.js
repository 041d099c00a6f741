/* SPDX-License-Identifier: Apache-2.0 */
// Play, pause, step, speed, scrub.

class Player {
  // Calls `show(seconds)` whenever the moment changes. All schedules share one clock: `longest` seconds of the machine's time.
  constructor(longest, frames, show) {
    Object.assign(this, { longest, show, time: 0, playing: false, frame: longest / frames });
    this.wholeRun = 14000; // milliseconds of ours at speed 1
    this.button = document.getElementById("play");
    this.scrub = document.getElementById("scrub");
    this.clock = document.getElementById("clock");
    this.speed = document.getElementById("speed");
    this.button.addEventListener("click", () => this.toggle());
    document.getElementById("back").addEventListener("click", () => this.step(-1));
    document.getElementById("forth").addEventListener("click", () => this.step(1));
    this.scrub.addEventListener("input", () => {
      this.pause();
      this.to((this.scrub.value / 10000) * longest);
    });
    document.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("select, input, a, summary, .scroll")) return;
    if (event.key === " " && event.target.closest("button")) return;
    const action = { " ": () => this.toggle(), ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), Home: () => this.jump(0), End: () => this.jump(this.longest) }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  to(time) {
    this.time = Math.max(0, Math.min(this.longest, time));
    const share = this.time / this.longest;
    this.scrub.value = Math.round(10000 * share);
    this.scrub.setAttribute("aria-valuetext", `${percent(share, 0)} of the run`);
    this.clock.textContent = `${duration(this.time, this.longest)} of ${duration(this.longest)}`;
    if (!this.playing) this.label();
    this.show(this.time);
  }

  label() {
    this.button.textContent = this.playing ? "Pause" : this.time >= this.longest ? "Replay" : "Play";
  }

  jump(time) {
    this.pause();
    this.to(time);
  }

  step(direction) {
    this.pause();
    this.to((Math.round(this.time / this.frame) + direction) * this.frame);
  }

  toggle() {
    if (this.playing) return this.pause();
    if (this.time >= this.longest) this.to(0);
    this.playing = true;
    this.label();
    this.last = null;
    requestAnimationFrame((now) => this.tick(now));
  }

  pause() {
    this.playing = false;
    this.label();
  }

  tick(now) {
    if (!this.playing) return;
    const passed = this.last === null ? 0 : Math.min(100, now - this.last);
    this.last = now;
    this.to(this.time + (passed / this.wholeRun) * this.longest * Number(this.speed.value));
    if (this.time >= this.longest) return this.pause();
    requestAnimationFrame((next) => this.tick(next));
  }
}
