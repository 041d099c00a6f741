/* SPDX-License-Identifier: Apache-2.0 */
/* What a launch takes by the fake NVML, and after how many its counter moves: a fake launch takes a millisecond, so that
 * energy is looked at every ten of them. */
#ifndef WEFT_TESTS_COUNTERS_FAKE_NVML_H
#define WEFT_TESTS_COUNTERS_FAKE_NVML_H

enum { FAKE_MILLIJOULES = 250, FAKE_STEP_LAUNCHES = 20 };

#endif
