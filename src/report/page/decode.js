/* SPDX-License-Identifier: Apache-2.0 */
// The recording: what src/report/recording_json.h describes, back into arrays.

function bytesOf(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

// Reads numbers one after the other: seven bits to a byte, lowest first.
function numbersOf(text) {
  const bytes = bytesOf(text);
  let at = 0;
  const next = () => {
    let value = 0, scale = 1;
    for (; bytes[at] >= 128; scale *= 128) value += (bytes[at++] - 128) * scale;
    return value + bytes[at++] * scale;
  };
  const signed = () => {
    const coded = next();
    return coded % 2 ? -(coded + 1) / 2 : coded / 2;
  };
  return { next, signed };
}

// Columns of `count` numbers, each coded as its difference to the one `stride` before it.
function columnsOf(text, names, count, stride) {
  const numbers = numbersOf(text), columns = {};
  for (const name of names) {
    const column = new Float64Array(count);
    for (let i = 0; i < count; i++) column[i] = numbers.signed() + (i < stride ? 0 : column[i - stride]);
    columns[name] = column;
  }
  return columns;
}

// (frames, domains, cells) levels.
function residentOf(trace) {
  const cells = trace.map.rows * trace.map.cols, maps = trace.frames * trace.domains;
  const levels = new Uint8Array(maps * cells), numbers = numbersOf(trace.resident);
  for (let m = 0; m < maps; m++) {
    const base = m * cells;
    if (m >= trace.domains) levels.copyWithin(base, base - trace.domains * cells, base - (trace.domains - 1) * cells);
    for (let at = numbers.next(); at < cells; at += numbers.next()) {
      const run = numbers.next(), end = at + Math.floor(run / 8);
      levels.fill(run % 8, base + at, base + end);
      at = end;
    }
  }
  return levels;
}

function decodeTrace(trace) {
  const { frames, domains, workers, visits } = trace;
  const visit = columnsOf(trace.visit, ["worker", "tile", "position", "begin", "length", "steps", "first", "last", "line0", "line1", "lookups", "misses"], visits, 1);
  const scale = trace.seconds / trace.ticks;
  for (let i = 0; i < visits; i++) {
    visit.begin[i] *= scale;
    visit.length[i] *= scale;
  }
  const place = columnsOf(trace.place, ["coded"], frames * workers, workers).coded;
  const counters = columnsOf(trace.counters, ["sectors", "hits", "misses", "fabric", "dram", "streams", "others"], frames * domains, domains);
  // Sums over the domains, for each frame.
  const total = {};
  for (const name in counters) {
    total[name] = new Float64Array(frames);
    for (let i = 0; i < frames * domains; i++) total[name][Math.floor(i / domains)] += counters[name][i];
  }
  // The visits of each worker, in the order of time.
  const ofWorker = Array.from({ length: workers }, () => []);
  for (let i = 0; i < visits; i++) ofWorker[visit.worker[i]].push(i);
  return { ...trace, visit, place, counters, total, ofWorker, resident: residentOf(trace), reuseData: bytesOf(trace.reuse.data) };
}

// The last visit in a worker's list that has begun at `time`; -1 when none has.
function visitAt(trace, worker, time) {
  const list = trace.ofWorker[worker];
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (trace.visit.begin[list[middle]] <= time) low = middle + 1;
    else high = middle;
  }
  return low ? list[low - 1] : -1;
}

// The frame that is the last to have ended at `time`; -1 before the first.
function frameAt(trace, time) {
  return Math.min(trace.frames, Math.floor((time / trace.seconds) * trace.frames + 1e-9)) - 1;
}
