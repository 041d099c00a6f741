/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer target: any bytes as a machine file. What is accepted must be a machine, what is refused must say where. */
#include <math.h>

#include <weft/machine.h>

#include "require.h"

static void check_machine(const weft_machine *m) {
    require(m->name[0] && memchr(m->name, 0, sizeof m->name) != NULL);
    require(m->title[0] && memchr(m->title, 0, sizeof m->title) != NULL);
    require(m->workers >= 1 && m->domains >= 1 && m->workers % m->domains == 0);
    require(m->handout >= WEFT_HANDOUT_ANY && m->handout <= WEFT_HANDOUT_ROUND_ROBIN);
    require(m->handout_run == 1 || (m->handout_run > 1 && m->handout == WEFT_HANDOUT_ANY && m->domains > 1));
    require(m->l2_replacement >= WEFT_REPLACEMENT_LRU && m->l2_replacement <= WEFT_REPLACEMENT_RANDOM);
    require(m->l2_home >= WEFT_HOME_NONE && m->l2_home <= WEFT_HOME_PRIVATE);
    require((m->l2_home == WEFT_HOME_NONE) == (m->domains == 1));
    require(m->l2_sector >= 1 && m->l2_line % m->l2_sector == 0);
    require(m->l2_bytes >= m->l2_line && m->l2_bytes % m->l2_line == 0);
    require(m->l2_ways >= 0 && (m->l2_ways == 0 || m->l2_bytes / m->l2_line % m->l2_ways == 0));
    require(m->shared_bytes >= 1 && m->llc_bytes >= 0 && m->llc_bytes % m->l2_line == 0);
    const double positive[] = {m->clock,       m->l2_bandwidth, m->dram_bandwidth, m->near_latency, m->dram_latency,
                               m->matrix_fp32, m->matrix_fp16,  m->matrix_bf16,    m->exp_rate};
    for (size_t i = 0; i < sizeof positive / sizeof positive[0]; i++) {
        require(isfinite(positive[i]) && positive[i] > 0);
    }
    require(isfinite(m->far_latency) && m->far_latency >= 0 && m->dram_latency >= m->far_latency);
    require(memchr(m->attention_profile, 0, sizeof m->attention_profile) != NULL && m->gemm_profile[0]);
    require(m->l2_crowded >= 0 && m->l2_crowded <= 0.5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const weft_machine zero = WEFT_MACHINE_INIT;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message = {""};
    memset(&machine, 0x5a, sizeof machine);
    machine.struct_size = sizeof machine;
    weft_status status = weft_machine_parse(&machine, (const char *)data, size, "fuzz", &message);
    if (status == WEFT_OK) {
        check_machine(&machine);
        require(message.text[0] == '\0');
    } else {
        require(status == WEFT_INVALID && memcmp(&machine, &zero, sizeof zero) == 0);
        require(strncmp(message.text, "fuzz:", 5) == 0 && memchr(message.text, 0, sizeof message.text) != NULL);
    }
    return 0;
}
