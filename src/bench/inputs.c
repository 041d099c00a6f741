/* Random inputs. */
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "bench/bench.h"
#include "cpu/thread/team.h"
#include "ref/ref.h"

/* Times do not depend on which numbers they are, so a few million are drawn and repeated, by a number that no row divides.
 */
static const size_t PERIOD = 4194319;

enum { BLOCK = 1 << 16 }; /* elements with a generator of their own: the same for any number of threads */

/* Numbers that are drawn over threads. */
typedef struct drawing {
    weft_dtype dtype;
    void *numbers;
    size_t count;
    uint64_t seed;
} drawing;

static void draw_block(void *context, int64_t block) {
    const drawing *d = context;
    const size_t begin = (size_t)block * BLOCK, end = begin + BLOCK < d->count ? begin + BLOCK : d->count;
    uint64_t start = d->seed + (uint64_t)block, state = weft_random(&start);
    for (size_t i = begin; i < end; i++) {
        const double u = weft_random_real(&state), v = weft_random_real(&state);
        weft_ref_store(d->dtype, d->numbers, i, sqrt(-2.0 * log(1.0 - u)) * cos(6.283185307179586 * v));
    }
}

size_t weft_bench_draw(const weft_buffer *buffer, uint64_t seed, void **numbers) {
    const size_t count = buffer->elements < PERIOD ? buffer->elements : PERIOD;
    drawing d = {buffer->dtype, malloc(count * weft_dtype_bytes(buffer->dtype)), count, seed};
    weft_cpu_for(d.numbers ? (int64_t)((count + BLOCK - 1) / BLOCK) : 0, draw_block, &d);
    *numbers = d.numbers;
    return count;
}
