/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters of the emulated GPU: numbers sent round between two barriers, and faults that it has to find. */
#include "cuda/ptx/cluster.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/tma.cuh"

#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CTAS = 6, CLUSTER = 3, THREADS = 64 };
enum fault { NONE, STORES_EARLY, READS_LATE, STAYS_AWAY, RELAXES, STORES_LATE };

/* Where the thread finds what CTA `rank` of its cluster sends it. */
static uint32_t slot(uint32_t rank) {
    return 16 * (threadIdx.x * CLUSTER + rank);
}

static void send() {
    for (uint32_t to = 0; to < CLUSTER; to++) {
        const float number = (float)blockIdx.x, thread = (float)threadIdx.x;
        cluster_store(cluster_address(slot(cluster_rank()), to), {number, thread, (float)to, 1});
    }
}

static float sum_of(uint32_t rank) {
    float four[4], two[2];
    shared_load(slot(rank), four);
    shared_load(slot(rank) + 8, two);
    return two[0] == four[2] && two[1] == four[3] ? four[0] + four[1] + four[2] + four[3] : NAN;
}

static void kernel(void *argument) {
    static __shared__ uint32_t number; /* of the CTA: each has its own */
    const fault f = *(const fault *)argument;
    const bool bad = cluster_rank() == 1 && threadIdx.x == 33;
    number = blockIdx.x;
    if (bad && f == STAYS_AWAY) {
        return;
    }
    if (bad && f == STORES_EARLY) {
        send();
    }
    cluster_arrive_relaxed();
    if (bad && f == READS_LATE) {
        sum_of(0);
    }
    cluster_wait();
    send();
    if (bad && f == RELAXES) {
        cluster_arrive_relaxed();
    } else {
        cluster_arrive();
    }
    cluster_wait();
    for (uint32_t i = 0; i < CLUSTER; i++) {
        const float sum = sum_of(i), right = (float)(cluster_index() * CLUSTER + i + threadIdx.x + cluster_rank() + 1);
        if (sum != right || number != blockIdx.x) {
            emulated_fail("a sum of %g, not %g, in CTA %u", (double)sum, (double)right, number);
        }
    }
    if (bad && f == STORES_LATE) {
        send();
    }
}

static void launch(fault f) {
    emulated_launch({kernel, &f, CTAS, THREADS, [] { emulated_copies_begin(16 * THREADS * CLUSTER); }, nullptr,
                     emulated_copies_end, CLUSTER});
}

/* Returns whether a launch in a process of its own ends with a line that has `words` in it. */
static bool found(fault f, const char *words) {
    char line[512] = "";
    size_t length = 0;
    int ends[2], status = 0;
    if (pipe(ends) != 0) {
        return false;
    }
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        dup2(ends[1], STDERR_FILENO);
        alarm(3600); // ends a launch that hangs
        launch(f);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0; length += (size_t)max(got, (ssize_t)0)) {
        got = read(ends[0], line + length, sizeof line - 1 - length);
    }
    close(ends[0]);
    waitpid(child, &status, 0);
    printf("%s", line);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(line, words) != nullptr;
}

int main() {
    const struct {
        fault f;
        const char *words;
    } faults[] = {{STORES_EARLY, "thread 33: a store to CTA 0 of the cluster, which may still use that memory"},
                  {READS_LATE, "another CTA writes to 0x630, which this one still read"},
                  {STAYS_AWAY, "thread 33 of CTA 1 is not at the cluster's barrier"},
                  {RELAXES, "a sum of nan, not"},
                  {STORES_LATE, "thread 33: a store to CTA 2 of the cluster, which has ended"}};
    int missed = 0;
    launch(NONE);
    for (const auto &it : faults) {
        if (!found(it.f, it.words)) {
            fprintf(stderr, "cluster_emulated: nobody said \"%s\"\n", it.words);
            missed++;
        }
    }
    return missed > 0;
}
