/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over ranks, which are processes here: as test_dist.c, by MPI.
 *   mpirun -n RANKS mpi_dist MOST_ROWS [gpu]
 * gpu: all ranks compute on the first GPU, and messages are staged, or MPI takes the GPU's memory. Exits 77 where there is
 * none. */
#include "../cmocka_all.h"

#include <stdlib.h>
#include <weft/dist_mpi.h>

#include "first_gpu.h"
#include "parts.h"
#include "shaken.h"

static int64_t most_rows;
static weft_transport by_mpi = WEFT_TRANSPORT_INIT;
static const weft_cuda_driver *gpu; /* null: on CPUs */
static void *stream;

/* Brings what all ranks have made to rank 0. */
static void gather(const part *mine, part *parts) {
    const whole *w = mine->w;
    const int64_t lines = w->s.p.batch * w->s.p.heads;
    for (int i = O; i <= TENSORS; i++) { /* the last: the LSE */
        for (int32_t rank = 1; rank < by_mpi.size; rank++) {
            const int64_t lse_rows = weft_dist_rows(mine->dist[0], rank, WEFT_QUERY_ROWS);
            const size_t bytes = i < TENSORS ? part_bytes(mine, rank, i) : (size_t)(lines * lse_rows) * sizeof(float);
            if (by_mpi.rank == rank) {
                MPI_Send(i < TENSORS ? (void *)mine->t[i] : mine->lse, (int)bytes, MPI_BYTE, 0, i, MPI_COMM_WORLD);
            } else if (by_mpi.rank == 0) {
                void *to = malloc(bytes + 1);
                assert_non_null(to);
                MPI_Recv(to, (int)bytes, MPI_BYTE, rank, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                *(i < TENSORS ? (void **)&parts[rank].t[i] : (void **)&parts[rank].lse) = to;
            }
        }
    }
    for (int32_t rank = 1; rank < by_mpi.size; rank++) {
        if (by_mpi.rank == rank) {
            MPI_Send(mine->grad_sinks, 8, MPI_FLOAT, 0, TENSORS + 1, MPI_COMM_WORLD);
        } else if (by_mpi.rank == 0) {
            MPI_Recv(parts[rank].grad_sinks, 8, MPI_FLOAT, rank, TENSORS + 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            parts[rank].rank = rank;
            parts[rank].dist[0] = mine->dist[0]; /* it knows who has which rows */
        }
    }
}

static void matches_the_reference(void **state) {
    (void)state;
    uint64_t random = random_seed(51);
    for (int i = 0; random_round(&random, &i, 16); i++) {
        whole w;
        part parts[MOST_RANKS];
        shaken shakes;
        draw_whole(&random, &w, most_rows, by_mpi.size, by_mpi.size);
        if (gpu) {
            suit_gpu(&w, &random);
        }
        make_whole(&w, &random);
        const int bhsd = (int)random_between(&random, 0, 1), keeps = (int)random_between(&random, 0, 1);
        for (int32_t rank = 0; rank < by_mpi.size; rank++) {
            parts[rank] = part_of(&w, rank, bhsd, keeps);
        }
        part *mine = &parts[by_mpi.rank];
        mine->seconds = 3600;
        mine->gpu = gpu;
        mine->stream = stream;
        const weft_transport late = shaken_open(&shakes, &by_mpi, random_bits(&random) + (uint64_t)by_mpi.rank);
        mine->status = run_part(mine, i % 2 ? &late : &by_mpi);
        if (mine->status) {
            fail_msg("rank %d: %s", (int)mine->rank, mine->message.text);
        }
        check_counts(mine);
        MPI_Barrier(MPI_COMM_WORLD);
        shaken_close(&shakes); /* all is received */
        gather(mine, parts);
        if (by_mpi.rank == 0) {
            check_parts(&w, parts);
        }
        for (int32_t rank = 0; rank < by_mpi.size; rank++) {
            parts[rank].dist[0] = rank == by_mpi.rank ? parts[rank].dist[0] : NULL;
            free_part(&parts[rank]);
        }
        free_whole(&w);
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
    most_rows = argc > 1 ? atoll(argv[1]) : 90;
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
