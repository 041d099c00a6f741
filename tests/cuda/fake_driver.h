/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA driver that is none: a shared library with libcuda's entry points, whose device memory is the host's and whose
 * kernels are the reference. The tests load it through WEFT_CUDA_DRIVER and script it through the environment variable
 * FAKE_CUDA, a list of words such as "version=11040 launch=701":
 *
 *   devices=N       how many GPUs there are (1)
 *   chips=1         GPU i is row i of fake_chips.def; the words below, where they are given, are of all of them
 *   version=N       of the driver (13000)
 *   capability=N    10 major + minor (90)
 *   sms=N           SMs (12)
 *   l2=N            bytes of the L2 (6 MiB)
 *   shared=N        bytes that a CTA can have (232448)
 *   pinned=0        no memory of the host can be pinned
 *   room=N          bytes of an allocation, at most (1 GiB)
 *   sides=N         of the L2: 1 or 2 (2)
 *   anywhere=1      every address is memory of the GPU
 *   capture=N       every stream is part of capture N
 *   node=N          in a capture, the type of the node before: a CUgraphNodeType (0, a kernel)
 *   twice=1         a launch runs at the same time as another executable of the graph that it was captured in
 *   capturing=1     another thread captures a stream that the default stream waits for
 *   late=1          CTAs that wait for each other wait in vain
 *   lazy=1          what is put on a stream is done later: see fake_streams.h
 *   stream=1 event=1  there are no more of them
 *   init=E load=E kernel=E launch=E cooperative=E memory=E set=E query=E synchronize=E push=E tensor_map=E
 *   record=E event_query=E bus=E  fail with CUresult E; retain and copies never do
 */
#ifndef WEFT_TESTS_CUDA_FAKE_DRIVER_H
#define WEFT_TESTS_CUDA_FAKE_DRIVER_H

#include <stdint.h>

/* What the tests look at, through dlsym(). */
typedef struct fake_counts {
    int library_loads, launches, allocations /* live */, contexts /* retained */, pushed /* depth, of all threads */;
    int clock_questions;
    int cooperative;       /* launches whose CTAs all run at once */
    int streams, events;   /* live */
    int captures_ended;    /* calls that a capture does not survive */
    uint64_t last_counter; /* of the last launch; 0: none, or it finds its own */
} fake_counts;

/* One call that fails, whichever it is: for tests that let each fail in turn. Through dlsym(), too. */
typedef struct fake_fault {
    int at;    /* the number of the call, the first being 1; 0: none */
    int on;    /* 1: and all after it */
    int later; /* 1: only work on a stream; it is not done, and each call after it says so, as on a GPU that has failed */
    int error; /* a CUresult */
    int calls, pending;
    const char *failed; /* the first that did; null: none */
} fake_fault;

/* What the fake driver writes into a tensor map; strides in bytes. */
typedef struct fake_tensor {
    uint64_t data;
    int32_t type, rank; /* a CUtensorMapDataType */
    int64_t length[5], stride[5];
    int32_t box[5], swizzle; /* a CUtensorMapSwizzle */
} fake_tensor;

/* The number behind "word=" in FAKE_CUDA. */
int fake_script(const char *word, int otherwise);

/* A launch begins that counts in `counter`, if it is not null: what runs at the same time may count there, too. */
void fake_begin(uint64_t *counter);

/* Runs a kernel by name. Returns a CUresult. */
int fake_run_attention(const char *kernel, unsigned grid, void **parameters);
int fake_run_study(const char *kernel, unsigned grid, const void *parameters); /* emulated only */
int fake_run_decode(const char *kernel, unsigned grid, const void *parameters);
int fake_run_mla(const char *kernel, unsigned grid, void *parameters);
int fake_run_append(const char *kernel, unsigned grid, const void *parameters);
int fake_run_backward(const char *kernel, unsigned grid, const void *parameters);
int fake_run_hopper_backward(const char *kernel, unsigned grid, void *parameters);
int fake_run_combine(unsigned grid, const void *parameters);
int fake_run_gemm(const char *kernel, unsigned grid, const void *parameters);
int fake_run_gemm_sums(unsigned grid, const void *parameters);
int fake_run_gemm_operands(unsigned grid, const void *parameters);
int fake_run_portable_gemm(const char *kernel, unsigned grid, const void *parameters);
int fake_run_hopper_grouped(const char *kernel, unsigned grid, const void *parameters);
int fake_run_portable_grouped(const char *kernel, unsigned grid, const void *parameters);
int fake_run(const char *kernel, unsigned grid, void **parameters);

#endif
