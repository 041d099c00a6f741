/* The model of the Hopper GEMM against the sweep that it was fitted to: what it takes for the fastest of each product is
 * nearly that. */
#include "../cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/sm90/gemm/phases.h"
#include "cuda/sm90/gemm/time.h"

enum { MOST_PRODUCTS = 320 };

/* A product of the sweep: its fastest way, and the one that the model takes for that. */
typedef struct product {
    int64_t m, n, k;
    int kn;
    double best, least, taken; /* measured; by the model; what was measured of the model's choice */
} product;

/* Where lines of A begin is the kernel's to say: see phases.h. */
static int64_t line_of_a(const product *p, int64_t tile_m, int64_t tile_n, int64_t cluster_m) {
    weft_gemm problem = WEFT_GEMM_INIT;
    problem.m = p->m;
    problem.n = p->n;
    problem.k = p->k;
    problem.dtype = problem.c_dtype = WEFT_BF16;
    problem.lda = p->k;
    problem.ldc = p->n;
    problem.b_major = p->kn ? WEFT_ROW_MAJOR : WEFT_COL_MAJOR;
    problem.ldb = p->kn ? p->n : p->k;
    const weft_gemm_view view = weft_gemm_view_of(&problem);
    return weft_gemm_line_of_a(&problem, &view, tile_m, tile_n, cluster_m);
}

static double model_time(const product *p, int64_t line, int64_t tile_m, int64_t tile_n, int64_t cluster_m,
                         int64_t cluster_n, int64_t split) {
    const double elements = (double)p->m * (double)p->k + (double)p->n * (double)p->k + (double)p->m * (double)p->n;
    const weft_gemm_model model = {
        .batch = 1,
        .k = p->k,
        .step = 64,
        .a = {p->m, tile_m, cluster_m, line, 0},
        .b = {p->n, tile_n, cluster_n, 2 * (p->kn ? p->n : p->k), p->kn},
        .split = split,
        .workers = 132,
        .per_sm = tile_m < 128 ? 2 : 1,
        .bytes = 2 * elements,
    };
    return weft_gemm_time(&model);
}

static product *find(product *list, size_t *count, int kn, int64_t m, int64_t n, int64_t k) {
    for (size_t i = 0; i < *count; i++) {
        if (list[i].kn == kn && list[i].m == m && list[i].n == n && list[i].k == k) {
            return &list[i];
        }
    }
    assert_true(*count < MOST_PRODUCTS);
    list[*count] = (product){.m = m, .n = n, .k = k, .kn = kn};
    return &list[(*count)++];
}

/* At least nine of ten within 3 %. */
static void chooses_well(void **state) {
    (void)state;
    FILE *file = fopen(WEFT_GEMM_TILES, "r");
    product list[MOST_PRODUCTS];
    size_t count = 0, rows = 0, near = 0;
    char text[256];
    assert_non_null(file);
    while (fgets(text, sizeof text, file)) {
        long long m, n, k, tile_m, tile_n, cluster_m, cluster_n, split;
        double measured;
        char layout[3];
        if (sscanf(text, "%2[kn],%lld,%lld,%lld,weft,%lldx%lld,%lldx%lld,%lld,%lf", layout, &m, &n, &k, &tile_m, &tile_n,
                   &cluster_m, &cluster_n, &split, &measured) != 10) {
            continue;
        }
        product *p = find(list, &count, strcmp(layout, "kn") == 0, m, n, k);
        const double time =
            model_time(p, line_of_a(p, tile_m, tile_n, cluster_m), tile_m, tile_n, cluster_m, cluster_n, split);
        assert_true(time > 0);
        p->best = p->best == 0 || measured < p->best ? measured : p->best;
        if (p->least == 0 || time < p->least) {
            p->least = time;
            p->taken = measured;
        }
        rows++;
    }
    (void)fclose(file);
    assert_true(count >= 30 && rows >= 600);
    for (size_t i = 0; i < count; i++) {
        near += list[i].taken <= 1.03 * list[i].best;
    }
    if (10 * near < 9 * count) {
        fail_msg("within 3 %% of the best on %zu of %zu products", near, count);
    }
}

/* More work takes longer, and clusters of four leave SMs over. */
static void grows(void **state) {
    (void)state;
    const product small = {.m = 4096, .n = 4096, .k = 4096}, deeper = {.m = 4096, .n = 4096, .k = 8192};
    const product wider = {.m = 4096, .n = 8192, .k = 4096}, odd = {.m = 4096, .n = 4096, .k = 4104};
    const double time = model_time(&small, 2 * small.k, 128, 256, 1, 1, 1);
    assert_true(model_time(&deeper, 2 * deeper.k, 128, 256, 1, 1, 1) > 1.8 * time);
    assert_true(model_time(&wider, 2 * wider.k, 128, 256, 1, 1, 1) > 1.8 * time);
    assert_true(model_time(&odd, 2 * odd.k, 128, 256, 1, 1, 1) > 1.2 * time);
    assert_true(model_time(&odd, 2 * odd.k, 128, 256, 2, 1, 1) < model_time(&odd, 2 * odd.k, 128, 256, 1, 1, 1));
    assert_true(model_time(&small, 2 * small.k, 128, 256, 2, 2, 1) > time);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chooses_well),
        cmocka_unit_test(grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
