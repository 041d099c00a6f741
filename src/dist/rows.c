/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of a problem each rank has. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "dist/dist.h"
#include "problem/problem.h"

/* Where the i-th of `parts` equal runs of rows begins: the first are a row longer. */
static int64_t run_begin(int64_t total, int64_t parts, int64_t i) {
    return total / parts * i + weft_smaller(i, total % parts);
}

static weft_chunk run_of(int64_t total, int64_t parts, int64_t i) {
    const int64_t begin = run_begin(total, parts, i);
    return (weft_chunk){begin, run_begin(total, parts, i + 1) - begin, 1};
}

void weft_dist_rows_free(weft_dist_rows_of *rows) {
    free(rows->chunks);
    free(rows->first);
    free(rows->at);
    *rows = (weft_dist_rows_of){0};
}

/* Adds a chunk to the rank that is being filled; one that continues the last is joined with it. */
static void add(weft_dist_rows_of *rows, int64_t rank, weft_chunk chunk) {
    int64_t *end = &rows->first[rank + 1];
    if (chunk.count == 0) {
        return;
    }
    weft_chunk *last = *end > rows->first[rank] ? &rows->chunks[*end - 1] : NULL;
    if (last && last->stride == 1 && chunk.stride == 1 && last->begin + last->count == chunk.begin) {
        last->count += chunk.count;
        return;
    }
    rows->chunks[(*end)++] = chunk;
}

/* The owners of runs, dealt so that ranks have equally many runs and nearly equal work: the largest first, each to the rank
 * with the least so far. */
typedef struct run {
    double work;
    int64_t number;
} run;

static int larger_first(const void *left, const void *right) {
    const run *a = left, *b = right;
    return a->work != b->work ? (a->work < b->work ? 1 : -1) : a->number > b->number ? 1 : -1;
}

static weft_status deal_runs(const weft_dist *dist, int64_t *owners, weft_message *message) {
    const weft_attention *p = &dist->problem.attention;
    const int64_t ranks = dist->ranks.ranks, count = ranks * dist->runs;
    run *runs = calloc((size_t)count, sizeof *runs);
    double *work = calloc((size_t)ranks, sizeof *work);
    int64_t *has = calloc((size_t)ranks, sizeof *has);
    if (!runs || !work || !has) {
        free(runs);
        free(work);
        free(has);
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for the runs of %lld ranks", (long long)ranks);
    }
    for (int64_t i = 0; i < count; i++) {
        const weft_chunk rows = run_of(p->seq, count, i);
        runs[i].number = i;
        for (int64_t row = rows.begin; row < rows.begin + rows.count; row++) {
            const weft_rows seen = weft_seen_keys(p, 0, row);
            runs[i].work += (double)(seen.end - seen.begin);
        }
    }
    qsort(runs, (size_t)count, sizeof *runs, larger_first);
    for (int64_t i = 0; i < count; i++) {
        int64_t to = -1;
        for (int64_t rank = 0; rank < ranks; rank++) {
            to = has[rank] < dist->runs && (to < 0 || work[rank] < work[to]) ? rank : to;
        }
        owners[runs[i].number] = to;
        work[to] += runs[i].work;
        has[to]++;
    }
    free(runs);
    free(work);
    free(has);
    return WEFT_OK;
}

static weft_status deal_rows(const weft_dist *dist, const int64_t *owners, weft_dist_rows_of *rows, weft_message *message) {
    const int64_t total = rows->total, ranks = dist->ranks.ranks, most = weft_larger(dist->runs, 2); /* chunks of a rank */
    rows->chunks = calloc((size_t)(ranks * most), sizeof *rows->chunks);
    rows->first = calloc((size_t)ranks + 1, sizeof *rows->first);
    rows->at = calloc((size_t)(ranks * most), sizeof *rows->at);
    if (!rows->chunks || !rows->first || !rows->at) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for the rows of %lld ranks", (long long)ranks);
    }
    for (int64_t r = 0; r < ranks; r++) {
        rows->first[r + 1] = rows->first[r];
        switch ((weft_rank_cut)dist->ranks.cut) {
        case WEFT_CUT_STRIPED:
            add(rows, r, (weft_chunk){r, total > r ? (total - r - 1) / ranks + 1 : 0, ranks});
            break;
        case WEFT_CUT_ZIGZAG:
            add(rows, r, run_of(total, 2 * ranks, r));
            add(rows, r, run_of(total, 2 * ranks, 2 * ranks - 1 - r));
            break;
        case WEFT_CUT_BALANCED:
            for (int64_t i = 0; i < ranks * dist->runs; i++) {
                if (owners[i] == r) {
                    add(rows, r, run_of(total, ranks * dist->runs, i));
                }
            }
            break;
        default:
            add(rows, r, run_of(total, ranks, r));
        }
        int64_t count = 0;
        for (int64_t i = rows->first[r]; i < rows->first[r + 1]; i++) {
            rows->at[i] = count;
            count += rows->chunks[i].count;
        }
        rows->most = weft_larger(rows->most, count);
    }
    return WEFT_OK;
}

weft_status weft_dist_deal(weft_dist *dist, weft_message *message) {
    int64_t *owners = NULL;
    weft_status status = WEFT_OK;
    if (dist->ranks.cut == WEFT_CUT_BALANCED) {
        owners = calloc((size_t)(dist->ranks.ranks * dist->runs), sizeof *owners);
        status = owners ? deal_runs(dist, owners, message)
                        : weft_fail(message, WEFT_NO_MEMORY, "no memory for the runs of the ranks");
    }
    status = status ? status : deal_rows(dist, owners, &dist->rows[WEFT_QUERY_ROWS], message);
    status = status ? status : deal_rows(dist, owners, &dist->rows[WEFT_KEY_ROWS], message);
    free(owners);
    return status;
}

/* Rows of a rank of the kind. */
static int64_t rows_of(const weft_dist_rows_of *rows, int64_t rank) {
    const int64_t last = rows->first[rank + 1] - 1;
    return last < rows->first[rank] ? 0 : rows->at[last] + rows->chunks[last].count;
}

int64_t weft_dist_rows(const weft_dist *dist, int64_t rank, int32_t of) {
    const int known = dist && rank >= 0 && rank < dist->ranks.ranks && (of == WEFT_QUERY_ROWS || of == WEFT_KEY_ROWS);
    return known ? rows_of(&dist->rows[of], rank) : 0;
}

int weft_dist_chunk(const weft_dist *dist, int64_t rank, int32_t of, int64_t number, weft_chunk *chunk) {
    if (!dist || rank < 0 || rank >= dist->ranks.ranks || (of != WEFT_QUERY_ROWS && of != WEFT_KEY_ROWS) || number < 0) {
        return 0;
    }
    const weft_dist_rows_of *rows = &dist->rows[of];
    if (number >= rows->first[rank + 1] - rows->first[rank]) {
        return 0;
    }
    *chunk = rows->chunks[rows->first[rank] + number];
    return 1;
}

weft_dist_group weft_dist_group_of(const weft_dist *dist, int64_t ring_rank, int32_t of) {
    const weft_dist_rows_of *rows = &dist->rows[of];
    const int64_t begin = ring_rank * dist->ranks.head_ranks, end = begin + dist->ranks.head_ranks;
    weft_dist_group group = {rows, begin, rows->first[begin], rows->first[end], 0};
    for (int64_t rank = begin; rank < end; rank++) {
        group.rows += rows_of(rows, rank);
    }
    return group;
}

weft_chunk weft_dist_group_chunk(const weft_dist_group *group, int64_t number, int64_t *before) {
    const weft_dist_rows_of *rows = group->of;
    *before = rows->at[number];
    for (int64_t rank = group->first_rank; rows->first[rank + 1] <= number; rank++) {
        *before += rows_of(rows, rank);
    }
    return rows->chunks[number];
}

/* Copies rows one way or the other. */
static void copy_rows(const weft_dist *dist, int64_t rank, int32_t of, char *all, size_t pitch, char *part,
                      size_t part_pitch, size_t bytes, int put) {
    weft_chunk chunk;
    for (int64_t i = 0; weft_dist_chunk(dist, rank, of, i, &chunk); i++) {
        for (int64_t row = 0; row < chunk.count; row++, part += part_pitch) {
            char *there = all + (size_t)(chunk.begin + row * chunk.stride) * pitch;
            memcpy(put ? there : part, put ? part : there, bytes);
        }
    }
}

void weft_dist_pick(const weft_dist *dist, int64_t rank, int32_t of, const void *all, size_t pitch, void *part,
                    size_t part_pitch, size_t bytes) {
    copy_rows(dist, rank, of, (char *)(uintptr_t)all, pitch, part, part_pitch, bytes, 0);
}

void weft_dist_put(const weft_dist *dist, int64_t rank, int32_t of, void *all, size_t pitch, const void *part,
                   size_t part_pitch, size_t bytes) {
    copy_rows(dist, rank, of, all, pitch, (char *)(uintptr_t)part, part_pitch, bytes, 1);
}
