/* SPDX-License-Identifier: Apache-2.0 */
/* Orders across ranks: all parts come by every rank, and at each step every part is at one. */
#include "../cmocka_all.h"
#include "../random.h"

#include <stdlib.h>
#include <string.h>

#include <weft/order.h>

enum { MOST = 130 };

static weft_ring draw(uint64_t *random, int32_t order) {
    weft_ring ring = {order, random_between(random, 1, MOST), 1};
    ring.columns = random_between(random, 1, ring.ranks);
    return ring;
}

static void each_part_is_at_one_rank(void **state) {
    (void)state;
    uint64_t random = random_seed(1);
    for (int i = 0; random_round(&random, &i, 300); i++) {
        const weft_ring ring = draw(&random, 1 + i % WEFT_RANK_ORDERS);
        static unsigned char by_step[MOST][MOST], by_rank[MOST][MOST];
        memset(by_step, 0, sizeof by_step);
        memset(by_rank, 0, sizeof by_rank);
        for (int64_t step = 0; step < ring.ranks; step++) {
            for (int64_t rank = 0; rank < ring.ranks; rank++) {
                const int64_t part = weft_ring_part(&ring, rank, step);
                assert_in_range(part, 0, ring.ranks - 1);
                assert_int_equal(by_step[step][part]++, 0);
                assert_int_equal(by_rank[rank][part]++, 0);
                assert_int_equal(weft_ring_taker(&ring, part, step), rank);
                assert_true(step > 0 || part == rank);
            }
        }
    }
}

/* A part goes from a rank to the same other one, whatever the part: that rank is `lag` steps further. */
static void parts_go_from_rank_to_rank(void **state) {
    (void)state;
    uint64_t random = random_seed(2);
    for (int i = 0; random_round(&random, &i, 300); i++) {
        const weft_ring ring = draw(&random, 1 + i % WEFT_RANK_ORDERS);
        const int64_t lag = weft_ring_lag(&ring);
        for (int64_t step = lag; step < ring.ranks; step++) {
            const int64_t rank = random_between(&random, 0, ring.ranks - 1), part = weft_ring_part(&ring, rank, step);
            const int64_t from = weft_ring_place(&ring, weft_ring_taker(&ring, part, step - lag));
            const int64_t along = weft_wrap(weft_ring_place(&ring, rank) - from, ring.ranks);
            assert_int_equal(along, lag == 1 || step % 2 || ring.ranks == 1 ? 1 % ring.ranks : ring.ranks - 1);
        }
    }
}

static int64_t distance(const weft_ring *ring, int64_t a, int64_t b) {
    return llabs(a / ring->columns - b / ring->columns) + llabs(a % ring->columns - b % ring->columns);
}

/* Every hop of a cycle through a mesh is to a neighbour, the last too, wherever there is such a cycle. */
static void mesh_cycles_go_to_neighbours(void **state) {
    (void)state;
    for (int64_t rows = 1; rows <= 9; rows++) {
        for (int64_t columns = 2; columns <= 9; columns++) {
            const weft_ring ring = {WEFT_RANK_ORDER_MESH_CYCLE, rows * columns, columns};
            const int closed = rows > 1 && rows * columns % 2 == 0;
            for (int64_t place = 0; place < ring.ranks; place++) {
                const int64_t here = weft_ring_rank(&ring, place), there = weft_ring_rank(&ring, (place + 1) % ring.ranks);
                assert_int_equal(weft_ring_place(&ring, here), place);
                assert_true(distance(&ring, here, there) == 1 || (!closed && place == ring.ranks - 1));
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_is_at_one_rank),
        cmocka_unit_test(parts_go_from_rank_to_rank),
        cmocka_unit_test(mesh_cycles_go_to_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
