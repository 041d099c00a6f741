/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder of the examples; and its whole sequences as prompts, by the CPU, end with the same logits. */
#define main decoder
#include "../../examples/07_decoder.c"
#undef main

int main(int count, char **arguments) {
    float steps[SEQUENCES][VOCABULARY], most = 0;
    static weft_plan *whole[PLANS];
    if (decoder(count, arguments)) {
        return 1;
    }
    memcpy(steps, m->logits, sizeof steps);
    memset(m->used, 0, sizeof m->used);
    options.device = NULL;
    make_pass(whole, TOKENS);
    forward(whole);
    for (int i = 0; i < SEQUENCES * VOCABULARY; i++) {
        const float apart = fabsf(steps[i / VOCABULARY][i % VOCABULARY] - m->logits[i / VOCABULARY][i % VOCABULARY]);
        most = apart <= most || isnan(most) ? most : apart;
    }
    for (int s = 0; s < SEQUENCES; s++) {
        if (m->used[s] != (int32_t)strlen(text[s]) || m->used[s] < STEPS) {
            printf("sequence %d has %d tokens\n", s, (int)m->used[s]);
            return 1;
        }
    }
    printf("logits differ by up to %.3f from those of whole prompts\n", (double)most);
    return !(most <= 0.1f); /* also where one is NaN */
}
