/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products over ranks, which are processes here: as test_products.c, by MPI.
 *   mpirun -n RANKS mpi_products MOST_ROWS [gpu]
 * gpu: see mpi_dist.c. */
#include "../cmocka_all.h"

#include <stdlib.h>
#include <weft/dist_mpi.h>

#include "first_gpu.h"
#include "products.h"
#include "shaken.h"

static int64_t most;
static weft_transport by_mpi = WEFT_TRANSPORT_INIT;
static const weft_cuda_driver *gpu; /* null: on CPUs */
static void *stream;

/* Brings what all ranks have made to rank 0. */
static void gather(const part_product *mine, part_product *parts) {
    for (int32_t rank = 1; rank < by_mpi.size; rank++) {
        part_matrix c = product_c_of(mine->w, mine->dist, rank);
        if (by_mpi.rank == rank) {
            MPI_Send(mine->c.at, (int)mine->c.bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        } else if (by_mpi.rank == 0) {
            c.at = malloc(c.bytes + 1);
            assert_non_null(c.at);
            MPI_Recv(c.at, (int)c.bytes, MPI_BYTE, rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            parts[rank].c = c;
        }
    }
}

static void matches_the_reference(void **state) {
    (void)state;
    uint64_t random = random_seed(71);
    for (int i = 0; random_round(&random, &i, 24); i++) {
        whole_product w;
        part_product parts[MOST_RANKS];
        shaken shakes;
        draw_product(&random, &w, most, by_mpi.size, by_mpi.size);
        if (gpu) {
            suit_gpu_product(&w);
        }
        fill_product(&w, &random);
        for (int32_t rank = 0; rank < by_mpi.size; rank++) {
            parts[rank] = product_part_of(&w, rank);
        }
        part_product *mine = &parts[by_mpi.rank];
        mine->seconds = 3600;
        mine->gpu = gpu;
        mine->stream = stream;
        const weft_transport late = shaken_open(&shakes, &by_mpi, random_bits(&random) + (uint64_t)by_mpi.rank);
        mine->status = run_product(mine, i % 2 ? &late : &by_mpi);
        if (mine->status) {
            fail_msg("rank %d: %s", (int)mine->rank, mine->message.text);
        }
        check_product_counts(mine);
        MPI_Barrier(MPI_COMM_WORLD);
        shaken_close(&shakes); /* all is received */
        gather(mine, parts);
        if (by_mpi.rank == 0) {
            check_product(&w, parts);
        }
        for (int32_t rank = 0; rank < by_mpi.size; rank++) {
            free_product_part(&parts[rank]);
        }
        free_product(&w);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_reference),
    };
    weft_mpi mpi;
    weft_message message = {"the GPU cannot be used"};
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    most = argc > 1 ? atoll(argv[1]) : 90;
    if (weft_mpi_open(&mpi, MPI_COMM_WORLD, &by_mpi, &message)) {
        fprintf(stderr, "%s\n", message.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (argc > 2 && !open_first_gpu(&gpu, &stream, &message)) {
        printf("skipped: %s\n", message.text);
        MPI_Finalize();
        return 77;
    }
    if (by_mpi.size > MOST_RANKS || cmocka_run_group_tests(tests, NULL, NULL)) {
        MPI_Abort(MPI_COMM_WORLD, 1); /* the others wait for this one */
    }
    weft_mpi_close(&mpi);
    return MPI_Finalize();
}
