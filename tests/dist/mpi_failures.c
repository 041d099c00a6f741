/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that is killed or stopped in the middle of a pass: the others are told which one, make a communicator of those
 * that are left, and run again.
 *   mpirun --enable-recovery -n RANKS mpi_failures KILL|STOP EXCHANGE forward|backward|m|k MESSAGE
 * m and k: a product of that cut, else an attention.
 * Rank RANKS - 2 fails at a message. Every other prints a line "rank N is well" and leaves without MPI_Finalize(), which
 * would wait for the lost one. */
#include "../cmocka_all.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/dist_mpi.h>

#include "parts.h"
#include "products.h"

static const double LIMIT = 8; /* seconds */
static struct {
    int signal;
    int64_t left; /* messages */
    weft_transport inner;
} doom;

static weft_status fail_or_send(void *self, const void *buffer, size_t bytes, int32_t to, int32_t tag, void **request,
                                weft_message *message) {
    if (doom.signal && doom.left-- == 0) {
        raise(doom.signal);
    }
    return doom.inner.send(self, buffer, bytes, to, tag, request, message);
}

/* What is run. */
typedef struct job {
    int32_t exchange, cut; /* cut: of a product; 0: an attention */
    int back;
} job;

typedef struct outcome {
    weft_status status;
    weft_message message;
} outcome;

/* A causal attention of these ranks. */
static outcome attend(const job *j, const weft_transport *transport) {
    const weft_attention fresh = WEFT_ATTENTION_INIT;
    const weft_ranks none = WEFT_RANKS_INIT;
    uint64_t random = 5;
    whole w = {.s = {.p = fresh, .ranks = none}};
    w.s.p.operation = j->back ? WEFT_ATTENTION_BACKWARD : WEFT_ATTENTION;
    w.s.p.heads = w.s.p.kv_heads = 12;
    w.s.p.seq = w.s.p.kv_seq = 600;
    w.s.p.head_dim = 32;
    w.s.ranks.exchange = j->exchange;
    make_whole(&w, &random);
    part p = part_of(&w, transport->rank, 0, 0);
    p.seconds = LIMIT;
    p.status = run_part(&p, transport);
    const outcome o = {p.status, p.message};
    free_part(&p);
    free_whole(&w);
    return o;
}

static outcome multiply(const job *j, const weft_transport *transport) {
    const weft_gemm fresh = WEFT_GEMM_INIT;
    const weft_ranks none = WEFT_RANKS_INIT;
    uint64_t random = 5;
    whole_product w = {.p = fresh, .ranks = none};
    w.p.m = 600;
    w.p.n = 200;
    w.p.k = 300;
    w.ranks.ranks = transport->size;
    w.ranks.exchange = j->exchange;
    w.ranks.cut = j->cut;
    fill_product(&w, &random);
    part_product p = product_part_of(&w, transport->rank);
    p.seconds = LIMIT;
    p.status = run_product(&p, transport);
    const outcome o = {p.status, p.message};
    free_product_part(&p);
    free_product(&w);
    return o;
}

static outcome run_once(const job *j, const weft_transport *transport) {
    return (j->cut ? multiply : attend)(j, transport);
}

static void expect(int holds, const char *what, const outcome *p) {
    if (!holds) {
        fprintf(stderr, "%s: %s\n", what, p->status ? p->message.text : "no failure");
        _exit(1);
    }
}

int main(int argc, char **argv) {
    weft_mpi all, left;
    weft_transport transport = WEFT_TRANSPORT_INIT;
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    if (argc != 5 || weft_mpi_open(&all, MPI_COMM_WORLD, &transport, NULL)) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const int32_t victim = transport.size - 2, rank = transport.rank;
    const job j = {weft_exchange_find(argv[2]), weft_rank_cut_find(argv[3]), strcmp(argv[3], "backward") == 0};
    const pid_t mine = getpid();
    pid_t victims_pid = mine;
    MPI_Bcast(&victims_pid, sizeof victims_pid, MPI_BYTE, victim, MPI_COMM_WORLD);

    outcome good = run_once(&j, &transport);
    expect(good.status == WEFT_OK, "before", &good);

    doom.inner = transport;
    if (rank == victim) {
        doom.signal = strcmp(argv[1], "KILL") == 0 ? SIGKILL : SIGSTOP;
        doom.left = atoll(argv[4]);
    }
    transport.send = fail_or_send;
    outcome bad = run_once(&j, &transport);
    char first[80];
    snprintf(first, sizeof first, "rank %d has not answered for %g s", (int)victim, LIMIT);
    expect(bad.status == WEFT_FAILED && strncmp(bad.message.text, first, strlen(first)) == 0, first, &bad);

    MPI_Group group, others;
    MPI_Comm comm;
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Group_excl(group, 1, &victim, &others);
    MPI_Comm_create_group(MPI_COMM_WORLD, others, 1, &comm);
    expect(weft_mpi_open(&left, comm, &transport, &bad.message) == WEFT_OK, "a new communicator", &bad);
    outcome again = run_once(&j, &transport);
    expect(again.status == WEFT_OK, "afterwards", &again);
    weft_mpi_close(&left);
    weft_mpi_close(&all);
    MPI_Barrier(comm);
    printf("rank %d is well\n", (int)rank);
    fflush(stdout);
    MPI_Barrier(comm);
    if (rank == 0) {
        kill(victims_pid, SIGKILL); /* it may be stopped */
    }
    _exit(0);
}
