/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL with one rank on a GPU: messages of a rank to itself, and attention and products over that rank, held to the
 * reference. It shows that NCCL's entry points are called as NCCL wants it; whatever needs two GPUs it cannot show.
 *
 *   nccl_device [messages]
 *
 * messages: nothing else, for which the library needs kernels. Exits 77, with one line, where there is no GPU or
 * no NCCL. */
#include "../cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include "first_gpu.h"
#include "parts.h"
#include "products.h"
#include <weft/nccl.h>

static const weft_cuda_driver *gpu;
static void *stream;
static weft_transport by_nccl = WEFT_TRANSPORT_INIT;

/* Two rounds of two messages each, of which the second sends on what the first has brought. */
static void messages(void **state) {
    (void)state;
    enum { WORDS = 1 << 20, BYTES = 4 * WORDS };
    static unsigned found[WORDS];
    const weft_transport *t = &by_nccl;
    uint64_t at[4];
    void *requests[8];
    int count = 0;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(gpu->memory_new(&at[i], BYTES), 0);
        assert_int_equal(gpu->set_words(at[i], i < 2 ? 11u + (unsigned)i : 0, WORDS, stream), 0);
    }
    for (uint64_t round = 0; round < 2; round++) {
        assert_int_equal(t->begin(t->self, stream, NULL), WEFT_OK);
        for (uint64_t i = 0; i < 2; i++) {
            void *from = (void *)(uintptr_t)at[round ? 3 - i : i], *to = (void *)(uintptr_t)at[round ? i : 2 + i];
            assert_int_equal(t->receive(t->self, to, BYTES, 0, WEFT_FIRST_TAG, &requests[count++], NULL), WEFT_OK);
            assert_int_equal(t->send(t->self, from, BYTES, 0, WEFT_FIRST_TAG, &requests[count++], NULL), WEFT_OK);
        }
        assert_int_equal(t->end(t->self, NULL), WEFT_OK);
    }
    for (int left = count; left > 0;) {
        for (int i = 0; i < count; i++) {
            weft_message message = {""};
            int32_t done = 0;
            if (requests[i] && t->test(t->self, requests[i], &done, &message)) {
                fail_msg("%s", message.text);
            }
            requests[i] = done ? NULL : requests[i];
            left -= done;
        }
    }
    for (int i = 0; i < 4; i++) {
        static const unsigned want[] = {12, 11, 11, 12};
        assert_int_equal(gpu->copy_out(found, at[i], BYTES), 0);
        for (int n = 0; n < WORDS; n++) {
            assert_int_equal(found[n], want[i]);
        }
        assert_int_equal(gpu->memory_free(at[i]), 0);
    }
}

static void attention(void **state) {
    (void)state;
    uint64_t random = random_seed(276);
    for (int i = 0; random_round(&random, &i, 16); i++) {
        whole w;
        draw_whole(&random, &w, 900, 1, 1);
        suit_gpu(&w, &random);
        make_whole(&w, &random);
        part mine = part_of(&w, 0, i % 2, 0);
        mine.gpu = gpu;
        mine.stream = stream;
        if (run_part(&mine, &by_nccl)) {
            fail_msg("%s", mine.message.text);
        }
        check_parts(&w, &mine);
        free_part(&mine);
        free_whole(&w);
    }
}

static void products(void **state) {
    (void)state;
    uint64_t random = random_seed(277);
    for (int i = 0; random_round(&random, &i, 16); i++) {
        whole_product w;
        draw_product(&random, &w, 250, 1, 1);
        suit_gpu_product(&w);
        fill_product(&w, &random);
        part_product mine = product_part_of(&w, 0);
        mine.gpu = gpu;
        mine.stream = stream;
        if (run_product(&mine, &by_nccl)) {
            fail_msg("%s", mine.message.text);
        }
        check_product(&w, &mine);
        free_product_part(&mine);
        free_product(&w);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(messages), cmocka_unit_test(attention), cmocka_unit_test(products)};
    const struct CMUnitTest few[] = {cmocka_unit_test(messages)};
    weft_nccl_options options = WEFT_NCCL_OPTIONS_INIT;
    weft_message message = {"the GPU cannot be used"};
    weft_nccl_id id;
    weft_nccl *nccl;
    if (!open_first_gpu(&gpu, &stream, &message) || weft_nccl_id_make(&id, &message) == WEFT_NOT_FOUND) {
        printf("skipped: %s\n", message.text);
        return 77;
    }
    options.id = &id;
    if (weft_nccl_open(&nccl, &options, &by_nccl, &message)) {
        fprintf(stderr, "%s\n", message.text);
        return 1;
    }
    const int failed = argc > 1 && strcmp(argv[1], "messages") == 0 ? cmocka_run_group_tests(few, NULL, NULL)
                                                                    : cmocka_run_group_tests(tests, NULL, NULL);
    weft_nccl_close(nccl);
    gpu->stream_free(stream);
    return failed;
}
