/* SPDX-License-Identifier: Apache-2.0 */
/* Step 6: ring attention. A causal sequence is cut among ranks so that all have equally much to do; the keys go round from
 * rank to rank while each computes; and each ends with its rows of O and of the gradients: mpirun -n 4 example_06_ring */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/dist_mpi.h>

enum { SEQ = 1000, HEADS = 4, DIM = 64, ROW = HEADS * DIM, COUNT = SEQ * ROW };
enum { Q, K, V, GRAD_O, O, GRAD_Q, GRAD_K, GRAD_V, TENSORS }; /* each (rows, HEADS, DIM); the first four are given */

static weft_message message;

static void check(weft_status status) {
    if (status) {
        fprintf(stderr, "%s: %s\n", weft_status_name(status), message.text);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void *make(size_t count) {
    void *memory = calloc(count, sizeof(float));
    if (!memory) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

static weft_attention_data forward_of(float **t, float *lse) {
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    data.q = t[Q], data.k = t[K], data.v = t[V], data.o = t[O], data.lse = lse;
    return data;
}

static weft_attention_gradients backward_of(float **t, float *lse) {
    weft_attention_gradients data = WEFT_ATTENTION_GRADIENTS_INIT;
    data.q = t[Q], data.k = t[K], data.v = t[V], data.o = t[O], data.lse = lse, data.grad_o = t[GRAD_O];
    data.grad_q = t[GRAD_Q], data.grad_k = t[GRAD_K], data.grad_v = t[GRAD_V];
    return data;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    weft_mpi mpi;
    weft_transport transport = WEFT_TRANSPORT_INIT;
    check(weft_mpi_open(&mpi, MPI_COMM_WORLD, &transport, &message));

    weft_attention problem = WEFT_ATTENTION_INIT; /* that of all ranks together */
    problem.seq = problem.kv_seq = SEQ, problem.heads = problem.kv_heads = HEADS, problem.head_dim = DIM;
    problem.mask = WEFT_MASK_CAUSAL;
    weft_ranks ranks = WEFT_RANKS_INIT;
    ranks.cut = WEFT_CUT_ZIGZAG;
    ranks.exchange = WEFT_EXCHANGE_RING;
    weft_dist_options options = WEFT_DIST_OPTIONS_INIT;
    options.ranks = &ranks;
    options.transport = &transport;
    weft_dist *forward, *backward;
    check(weft_dist_create(&forward, &problem, &options, &message));
    problem.operation = WEFT_ATTENTION_BACKWARD;
    check(weft_dist_create(&backward, &problem, &options, &message));

    /* Every rank draws the same numbers and takes its rows of them; a model would only ever have its rows. */
    const size_t row = ROW * sizeof(float), rows = (size_t)weft_dist_rows(forward, transport.rank, WEFT_QUERY_ROWS);
    float *all[TENSORS], *mine[TENSORS], *all_lse = make(SEQ * HEADS), *lse = make(rows * HEADS), *want = make(rows * ROW);
    for (int t = 0; t < TENSORS; t++) {
        all[t] = make(COUNT), mine[t] = make(rows * ROW);
        for (int i = 0; i < COUNT && t <= GRAD_O; i++) {
            all[t][i] = (float)rand() / (float)RAND_MAX - 0.5f;
        }
        weft_dist_pick(forward, transport.rank, WEFT_QUERY_ROWS, all[t], row, mine[t], row, row);
    }
    const weft_attention_data data = forward_of(mine, lse);
    const weft_attention_gradients gradients = backward_of(mine, lse);
    check(weft_dist_run(forward, &data, NULL, &message));
    check(weft_dist_run(backward, &gradients, NULL, &message));

    /* The same by this rank alone. */
    const weft_attention_data whole = forward_of(all, all_lse);
    const weft_attention_gradients whole_gradients = backward_of(all, all_lse);
    problem.operation = WEFT_ATTENTION;
    check(weft_attention_forward(&problem, &whole, &message));
    check(weft_attention_backward(&problem, &whole_gradients, &message));
    size_t wrong = 0;
    for (int t = O; t < TENSORS; t++) {
        weft_dist_pick(forward, transport.rank, WEFT_QUERY_ROWS, all[t], row, want, row, row);
        for (size_t i = 0; i < rows * ROW; i++) {
            wrong += !(fabsf(mine[t][i] - want[i]) < 1e-5f);
        }
        free(all[t]), free(mine[t]);
    }
    weft_dist_traffic sent = WEFT_DIST_TRAFFIC_INIT;
    weft_dist_counted(forward, &sent);
    printf("rank %d of %d: %zu rows, %llu bytes sent, %zu numbers other than by one rank\n", transport.rank, transport.size,
           rows, (unsigned long long)sent.sent, wrong);
    free(all_lse), free(lse), free(want);
    weft_dist_destroy(forward), weft_dist_destroy(backward);
    weft_mpi_close(&mpi);
    MPI_Finalize();
    return wrong > 0;
}
