/* SPDX-License-Identifier: Apache-2.0 */
// The headline: how many misses an order saves, what that does to the time, and what the time is bound by.

const runOf = (s) => s.simulation.predicted.seconds;
const missesOf = (s) => s.simulation.l2.misses;

// What takes the time of a run, or "" where nothing is known of its steps.
function boundOf(s, machine) {
  if (!s.bound) return "";
  const { dram, waited } = s.simulation, seconds = runOf(s);
  const moving = (dram.read_bytes + dram.write_bytes) / machine.dram_bandwidth;
  if (s.bound.steps >= 0.9 * seconds) return "compute-bound";
  if (moving >= 0.8 * seconds) return "DRAM-bound";
  if (waited > 0.1) return `${percent(waited, 0)} of it waiting for turns to add`;
  return `${percent(s.bound.steps / seconds, 0)} of it computing`;
}

// The time of the schedule with the fewest misses beside that of the one with the most.
function timeText(best, worst, machine) {
  const ratio = runOf(best) / runOf(worst), bounds = [best, worst].map((s) => boundOf(s, machine));
  const why = bounds[0] && (bounds[0] === bounds[1] || ratio > 1.01) ? `: ${bounds[0]}` : "";
  if (Math.abs(ratio - 1) <= 0.01) return `same predicted time${why}`;
  if (ratio < 1) return ratio < 0.77 ? `predicted ${timesText(1 / ratio)} times faster${why}` : `${percent(1 - ratio, 0)} less predicted time${why}`;
  return `yet ${ratio > 1.3 ? `${timesText(ratio)} times the` : `${percent(ratio - 1, 0)} more`} predicted time${why}`;
}

function byMisses(schedules) {
  const sorted = [...schedules].sort((a, b) => missesOf(a) - missesOf(b));
  return { best: sorted[0], worst: sorted[sorted.length - 1], times: missesOf(sorted[sorted.length - 1]) / Math.max(1, missesOf(sorted[0])) };
}

function headlineOf({ schedules, machine }) {
  const { best, worst, times } = byMisses(schedules), strong = (s) => strongName(s.name, schedules.indexOf(s));
  if (schedules.length === 1) {
    const bound = boundOf(best, machine);
    return [`${percent(best.simulation.l2.hit_rate)} of L2 lookups hit with `, strong(best), bound && `; time: ${bound}`];
  }
  if (times < 1.03) {
    const times = schedules.map(runOf), [fast, slow] = [schedules[times.indexOf(Math.min(...times))], schedules[times.indexOf(Math.max(...times))]];
    return ["These schedules miss equally often; ", timeText(fast, slow, machine), runOf(fast) < 0.99 * runOf(slow) && " with ", runOf(fast) < 0.99 * runOf(slow) && strong(fast)];
  }
  return [`${timesText(times)} times fewer misses with `, strong(best), schedules.length > 2 && " than with ", schedules.length > 2 && strong(worst), `; ${timeText(best, worst, machine)}`];
}

// The same in numbers.
function findingOf({ schedules, machine }) {
  const { best, worst } = byMisses(schedules);
  const says = (s) => `${s.name} misses ${count(missesOf(s))} sectors and reads ${size(s.simulation.dram.read_bytes)} from DRAM, in ${duration(runOf(s))}`;
  return `${says(best)}${best === worst ? "" : `; ${says(worst)}`}. Predicted by the simulator, not measured.`;
}
