/* SPDX-License-Identifier: Apache-2.0 */
/* What the library is made of: the one place that names every backend and the tuner. Whatever a plan needs of them it finds
 * here, so that nothing below depends on anything above. */
#include "cpu/backend.h"
#include "cuda/plan/backend.h"
#include "plan/plan.h"
#include "tune/search/tune.h"

const weft_registry weft_registered = {
    .backends = {[WEFT_DEVICE_CPU] = &weft_backend_cpu, [WEFT_DEVICE_CUDA] = &weft_backend_cuda},
    .tune = weft_tune_registered,
};
