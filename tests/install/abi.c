/* SPDX-License-Identifier: Apache-2.0 */
/* A program that may have been compiled against another version's headers: see abi.py. Whatever it hands to the library lies
 * in front of bytes that nobody may write. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/sim.h>

#define CHECK(condition)                                                                                                   \
    do {                                                                                                                   \
        if (!(condition)) {                                                                                                \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, message.text);                              \
            exit(1);                                                                                                       \
        }                                                                                                                  \
    } while (0)

static weft_message message;

/* A struct with a border behind it. */
#define BORDERED(type, name, init)                                                                                         \
    struct {                                                                                                               \
        type value;                                                                                                        \
        unsigned char border[64];                                                                                          \
    } name = {init, {0}};                                                                                                  \
    memset(name.border, 0xa5, sizeof name.border)

static int is_whole(const unsigned char *border) {
    for (int i = 0; i < 64; i++) {
        if (border[i] != 0xa5) {
            return 0;
        }
    }
    return 1;
}

static void attention(void) {
    enum { SEQ = 3, DIM = 8 };
    float q[SEQ * DIM] = {0}, k[SEQ * DIM] = {0}, v[SEQ * DIM], o[SEQ * DIM];
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    weft_plan *plan;
    for (int i = 0; i < SEQ * DIM; i++) {
        v[i] = (float)(i / DIM);
    }
    p.seq = p.kv_seq = SEQ;
    p.head_dim = DIM;
    p.mask = WEFT_MASK_CAUSAL;
    data.q = q;
    data.k = k;
    data.v = v;
    data.o = o;
    CHECK(weft_plan_create(&plan, &p, &options, &message) == WEFT_OK);
    CHECK(weft_plan_run(plan, &data, &message) == WEFT_OK);
    CHECK(o[0] == 0 && fabsf(o[DIM] - 0.5f) < 1e-6f && fabsf(o[2 * DIM] - 1) < 1e-6f); /* means of 0, of 0 1, of 0 1 2 */
    weft_plan_destroy(plan);
#ifdef WEFT_LONGER
    p.added_later = 1;
    CHECK(weft_plan_create(&plan, &p, &options, &message) == WEFT_UNSUPPORTED); /* rather than compute something else */
    p.added_later = 0;
    CHECK(weft_plan_create(&plan, &p, &options, &message) == WEFT_OK);
    data.added_later = 1;
    CHECK(weft_plan_run(plan, &data, &message) == WEFT_UNSUPPORTED);
    weft_plan_destroy(plan);
#endif
    p.struct_size = 5;
    CHECK(weft_plan_create(&plan, &p, &options, &message) == WEFT_INVALID);
    p.struct_size = (size_t)-1;
    CHECK(weft_plan_create(&plan, &p, &options, &message) == WEFT_INVALID);
}

static void gemm(void) {
    const float a[4] = {1, 2, 3, 4}, b[4] = {1, 0, 0, 1};
    float c[4];
    weft_gemm p = WEFT_GEMM_INIT;
    weft_gemm_data data = WEFT_GEMM_DATA_INIT;
    p.m = p.n = p.k = 2;
    data.a = a;
    data.b = b;
    data.c = c;
    CHECK(weft_gemm_multiply(&p, &data, &message) == WEFT_OK);
    CHECK(memcmp(a, c, sizeof c) == 0);
    BORDERED(weft_buffer, buffer, WEFT_BUFFER_INIT);
    CHECK(weft_problem_buffer(&p, 2, &buffer.value, &message) == WEFT_OK);
    CHECK(strcmp(buffer.value.name, "c") == 0 && buffer.value.elements == 4 && is_whole(buffer.border));
    CHECK(weft_problem_buffer(&p, 3, &buffer.value, &message) == WEFT_NOT_FOUND);
}

static void combination(void) {
    const float parts[2][2] = {{1, 2}, {3, 4}}, lse = 0;
    float o[2];
    weft_combine p = WEFT_COMBINE_INIT;
    weft_combine_data data = WEFT_COMBINE_DATA_INIT;
    p.seq = 1;
    p.head_dim = 2;
    for (int i = 0; i < 2; i++) {
        data.parts[i] = parts[i];
        data.lses[i] = &lse;
    }
    data.o = o;
    CHECK(weft_combine_parts(&p, &data, &message) == WEFT_OK);
    CHECK(o[0] == 2 && o[1] == 3); /* means */
#ifndef WEFT_SHORTER
    p.into = p.sum = 1;
    CHECK(weft_combine_parts(&p, &data, &message) == WEFT_OK);
    CHECK(o[0] == 6 && o[1] == 9);
#endif
}

static void simulation(void) {
    enum { DOMAINS = 8 }; /* of an MI300X */
    weft_attention p = WEFT_ATTENTION_INIT;
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    weft_simulate_options how = WEFT_SIMULATE_INIT;
    weft_plan *plan;
    BORDERED(weft_machine, machine, WEFT_MACHINE_INIT);
    BORDERED(weft_simulation, result, WEFT_SIMULATION_INIT);
    struct {
        weft_traffic value[DOMAINS];
        unsigned char border[64];
    } domains = {{WEFT_TRAFFIC_INIT}, {0}};
    memset(domains.border, 0xa5, sizeof domains.border);
    p.heads = p.kv_heads = 16;
    p.seq = p.kv_seq = 1024;
    p.head_dim = 64;
    CHECK(weft_machine_load(&machine.value, "mi300x", &message) == WEFT_OK);
    CHECK(machine.value.domains == DOMAINS && machine.value.exp_rate > 0 && is_whole(machine.border));
    options.machine = &machine.value;
    CHECK(weft_plan_create(&plan, &p, &options, &message) == WEFT_OK);
    CHECK(weft_simulate(plan, &how, &result.value, domains.value, &message) == WEFT_OK);
    CHECK(is_whole(result.border) && is_whole(domains.border));
    uint64_t sectors = 0;
    for (int i = 0; i < DOMAINS; i++) {
        sectors += domains.value[i].sectors;
    }
    BORDERED(weft_profile, profile, WEFT_PROFILE_INIT);
    CHECK(weft_profile_load(&profile.value, weft_plan_profile(plan), &message) == WEFT_OK);
    CHECK(profile.value.merge >= 1 && is_whole(profile.border));
#ifndef WEFT_SHORTER /* whose options have no profile, and whose profile has no clock: the default stands */
    BORDERED(weft_simulation, again, WEFT_SIMULATION_INIT);
    how.profile = &profile.value;
    CHECK(weft_simulate(plan, &how, &again.value, NULL, &message) == WEFT_OK);
    CHECK(again.value.seconds == result.value.seconds && is_whole(again.border));
    profile.value.stages = 17;
    CHECK(weft_simulate(plan, &how, &again.value, NULL, &message) == WEFT_INVALID);
#endif
    CHECK(sectors == result.value.total.sectors && sectors > 0 && result.value.seconds > 0);
    weft_plan_destroy(plan);
}

int main(void) {
    attention();
    gemm();
    combination();
    simulation();
    printf("weft %s, compiled against %s: attention %zu bytes, machine %zu\n", weft_version(), WEFT_VERSION,
           sizeof(weft_attention), sizeof(weft_machine));
    return 0;
}
