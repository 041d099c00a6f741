/* SPDX-License-Identifier: Apache-2.0 */
/* weft order show: an order on a small grid, as text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/names.h"
#include "cli.h"

enum { MAX_ROWS = 256, MAX_COLS = 64, SHOW_POSITION = 0, SHOW_WORKER, SHOW_DOMAIN, SHOW_PATH };

/* Sides of a cell that the walk leaves by. */
enum { UP = 1, DOWN = 2, LEFT = 4, RIGHT = 8 };

/* The grid as it is shown: batches one below the other. */
typedef struct picture {
    int64_t rows, cols, count;
    int64_t *visits; /* tile indices in the order of visiting */
    int64_t *cells;  /* what is written in each tile */
} picture;

static weft_tile tile_at(const picture *p, int64_t index) {
    return weft_tile_at(0, index / p->cols, index % p->cols);
}

/* Walks the plan's positions one after the other, as a single worker would, and notes who visits what. */
static void walk_grid(const weft_walk *walk, picture *p, int what) {
    int64_t visited = 0;
    for (int64_t position = 0; position < walk->order.count; position++) {
        for (int32_t which = 0; which < walk->visits; which++) {
            weft_visit visit;
            if (!weft_walk_visit(walk, position, 0, which, &visit)) {
                continue;
            }
            for (int64_t i = 0; i < walk->cluster_rows * walk->cluster_cols; i++) {
                const int64_t row =
                    visit.tile.batch * walk->order.grid.rows * walk->cluster_rows + visit.tile.row + i / walk->cluster_cols;
                const int64_t index = row * p->cols + visit.tile.col + i % walk->cluster_cols;
                p->cells[index] = what == SHOW_WORKER   ? position % walk->workers
                                  : what == SHOW_DOMAIN ? position % walk->order.domains
                                                        : position;
                p->visits[visited++] = index;
            }
        }
    }
}

static int side_towards(weft_tile from, weft_tile to) {
    if (from.row == to.row) {
        return to.col == from.col + 1 ? RIGHT : to.col == from.col - 1 ? LEFT : 0;
    }
    if (from.col == to.col) {
        return to.row == from.row + 1 ? DOWN : to.row == from.row - 1 ? UP : 0;
    }
    return 0;
}

/* Turns the cells into the sides that the path enters and leaves by. */
static void trace_path(picture *p) {
    memset(p->cells, 0, (size_t)p->count * sizeof *p->cells);
    for (int64_t i = 0; i + 1 < p->count; i++) {
        const weft_tile here = tile_at(p, p->visits[i]), next = tile_at(p, p->visits[i + 1]);
        p->cells[p->visits[i]] |= side_towards(here, next);
        p->cells[p->visits[i + 1]] |= side_towards(next, here);
    }
}

static void print_path(const picture *p) {
    static const char *const glyphs[16] = {[0] = "·",
                                           [UP] = "╵",
                                           [DOWN] = "╷",
                                           [UP | DOWN] = "│",
                                           [LEFT] = "╴",
                                           [UP | LEFT] = "┘",
                                           [DOWN | LEFT] = "┐",
                                           [UP | DOWN | LEFT] = "┤",
                                           [RIGHT] = "╶",
                                           [UP | RIGHT] = "└",
                                           [DOWN | RIGHT] = "┌",
                                           [UP | DOWN | RIGHT] = "├",
                                           [LEFT | RIGHT] = "─",
                                           [UP | LEFT | RIGHT] = "┴",
                                           [DOWN | LEFT | RIGHT] = "┬",
                                           [UP | DOWN | LEFT | RIGHT] = "┼"};
    for (int64_t row = 0; row < p->rows; row++) {
        for (int64_t col = 0; col < p->cols; col++) {
            const int64_t sides = p->cells[row * p->cols + col];
            printf("%s%s", glyphs[sides], col + 1 == p->cols ? "\n" : sides & RIGHT ? "─" : " ");
        }
    }
}

static void print_numbers(const picture *p) {
    int64_t largest = 0;
    for (int64_t i = 0; i < p->count; i++) {
        largest = p->cells[i] > largest ? p->cells[i] : largest;
    }
    const int width = snprintf(NULL, 0, "%lld", (long long)largest);
    for (int64_t i = 0; i < p->count; i++) {
        printf("%*lld%c", width, (long long)p->cells[i], (i + 1) % p->cols == 0 ? '\n' : ' ');
    }
}

static int print_picture_json(const picture *p, const weft_plan *plan) {
    json_t *rows = json_array();
    for (int64_t row = 0; row < p->rows; row++) {
        json_t *line = json_array();
        for (int64_t col = 0; col < p->cols; col++) {
            weft_json_append(&line, json_integer(p->cells[row * p->cols + col]));
        }
        weft_json_append(&rows, line);
    }
    return print_json(
        json_pack("{s:s, s:o}", "order", weft_order_describe(weft_plan_schedule(plan).order)->name, "rows", rows));
}

static int show(const settings *s, const weft_plan *plan) {
    const weft_walk *walk = weft_plan_walk(plan, sizeof *walk);
    const weft_grid *g = &walk->order.grid;
    const int what = s->show < 0 ? SHOW_POSITION : s->show;
    picture p = {0, walk->cols, 0, NULL, NULL};
    if (p.cols > MAX_COLS || g->rows > MAX_ROWS || g->batch > MAX_ROWS ||
        g->batch * g->rows * walk->cluster_rows > MAX_ROWS) {
        return complain(
            EXIT_USAGE, "a grid of %lld x %lld x %lld tiles is too large to show: at most %d rows and %d columns",
            (long long)g->batch, (long long)(g->rows * walk->cluster_rows), (long long)p.cols, MAX_ROWS, MAX_COLS);
    }
    p.rows = g->batch * g->rows * walk->cluster_rows;
    p.count = p.rows * p.cols;
    p.visits = calloc((size_t)p.count, sizeof *p.visits);
    p.cells = calloc((size_t)p.count, sizeof *p.cells);
    int code = EXIT_OK;
    if (!p.visits || !p.cells) {
        code = complain(EXIT_FAILED, "out of memory");
    } else {
        walk_grid(walk, &p, what);
        if (what == SHOW_PATH) {
            trace_path(&p);
        }
        if (s->json) {
            code = print_picture_json(&p, plan);
        } else if (what == SHOW_PATH) {
            print_path(&p);
        } else {
            print_numbers(&p);
        }
    }
    free(p.visits);
    free(p.cells);
    return code;
}

/* A picture does not depend on this host: sides left open are those of a GPU kernel, or the problem's where it is smaller.
 * Each is a side of the tile and the field that it cuts. */
static void settle_sides(settings *s) {
    static const struct {
        weft_grid_kind grid;
        int side;
        int64_t usual;
        const char *field;
    } sides[] = {{WEFT_GRID_MATRIX, 0, 128, "m"}, {WEFT_GRID_MATRIX, 1, 128, "n"}, {WEFT_GRID_HEADS, 0, 64, "seq"}};
    const weft_operation_info *info = weft_operation_describe(s->operation);
    problem p;
    weft_message unused;
    const int is_right = problem_of(s, &p, &unused);
    for (size_t i = 0; i < sizeof sides / sizeof *sides && is_right; i++) {
        for (size_t k = 0; k < info->field_count; k++) {
            int64_t length;
            memcpy(&length, (const char *)&p + info->fields[k].offset, sizeof length);
            if (sides[i].grid == info->grid && strcmp(info->fields[k].name, sides[i].field) == 0 && length > 0 &&
                s->tile[sides[i].side] == 0) {
                s->tile[sides[i].side] = length < sides[i].usual ? length : sides[i].usual;
            }
        }
    }
}

int cmd_order(const settings *given, const char *const *words, size_t count) {
    settings s = *given;
    (void)count;
    if (!weft_names_agree(words[0], "show") || !s.operation) {
        return complain(EXIT_USAGE,
                        "'order %s %s' is not known: 'weft order show attention' and 'weft order show gemm' are", words[0],
                        words[1]);
    }
    settle_sides(&s);
    weft_plan *plan = NULL;
    int code = make_plan(&s, &plan);
    if (code == EXIT_OK) {
        code = show(&s, plan);
    }
    weft_plan_destroy(plan);
    return code;
}
