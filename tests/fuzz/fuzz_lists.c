/* SPDX-License-Identifier: Apache-2.0 */
/* Lengths of sequences, lists of blocks and lists of pages, filled with anything: nothing leads outside of a tensor or of
 * the lists, which are no longer than they have to be. What is right is exact: tiles have every row of a sequence once and
 * visit all that it sees; steps of a list are those of its blocks. */
#include <weft/order.h>

#include "require.h"

enum { MOST = 20, MOST_SEQUENCES = 4, BLOCK_COLUMNS = 32, MOST_LISTS = 8, MOST_ENTRIES = 8 };

/* Lengths that are right: starts ascend, and no part is longer than its sequence. */
static int are_right(const weft_sequences *all) {
    const weft_lengths *l = &all->lengths;
    if (!l->q_starts) {
        return 1;
    }
    const int32_t *kv_starts = l->kv_starts ? l->kv_starts : l->q_starts;
    for (int64_t i = 0; i < all->count; i++) {
        if (l->q_starts[i] > l->q_starts[i + 1] || kv_starts[i] > kv_starts[i + 1]) {
            return 0;
        }
    }
    return l->q_starts[0] == 0 && kv_starts[0] == 0 && l->q_starts[all->count] <= all->queries &&
           kv_starts[all->count] <= all->keys;
}

static weft_band take_band(bytes *in) {
    weft_band band = {WEFT_BAND_OPEN, WEFT_BAND_OPEN, 0, 0, 0, 0};
    const uint8_t kind = next_byte(in);
    band.left = kind & 1 ? next_between(in, 0, MOST) : WEFT_BAND_OPEN;
    band.right = kind & 2 ? next_between(in, 0, MOST) : WEFT_BAND_OPEN;
    band.from_end = kind >> 2 & 1;
    band.offset = band.from_end ? 0 : kind & 8 ? next_length(in, MOST) : 0;
    band.chunk = kind & 16 ? 1 + (next_length(in, MOST) & INT32_MAX - 1) : 0;
    band.prefix = !(kind & 17) && kind & 32 ? next_length(in, MOST) & INT32_MAX : 0;
    return band;
}

/* Whether a row sees a column, in the words of sequence.h, for rows and columns that count. */
static int sees(const weft_band *b, const weft_sequence *s, int64_t row, int64_t column) {
    const int64_t keys = s->columns.end - s->columns.begin, queries = s->used_end - s->rows.begin;
    const int64_t at = row - s->rows.begin + (b->from_end ? keys - queries : b->offset), key = column - s->columns.begin;
    if (row < s->rows.begin || row >= s->used_end || column < s->columns.begin || column >= s->columns.end) {
        return 0;
    }
    if (key < b->prefix) {
        return 1;
    }
    if (b->chunk > 0 && (at < 0 || key / b->chunk != at / b->chunk)) {
        return 0;
    }
    return key >= at - b->left && key <= at + b->right;
}

static void check_tile(const weft_reach *reach, const weft_cut *cut) {
    const weft_steps steps = weft_reach_band_steps(reach, cut);
    const int64_t count = weft_ceil_divide(reach->columns, reach->tile_columns);
    require(steps.begin >= 0 && steps.begin <= steps.end && steps.end <= count);
    require(steps.full_begin >= steps.full_end || (steps.full_begin >= 0 && steps.full_end <= count));
    if (!are_right(&reach->sequences)) {
        return;
    }
    require(steps.full_begin >= steps.full_end || (steps.full_begin >= steps.begin && steps.full_end <= steps.end));
    for (int64_t row = cut->rows.begin; row < cut->rows.end; row++) {
        for (int64_t column = 0; column < reach->columns; column++) {
            const int64_t query = reach->transposed ? column : row, key = reach->transposed ? row : column;
            const int64_t step = column / reach->tile_columns;
            int seen = 0;
            for (int64_t i = 0; i < reach->sequences.count && !seen; i++) {
                const weft_sequence s = weft_sequence_at(&reach->sequences, i);
                seen = (reach->sequences.packed || i == cut->sequence) && sees(&reach->band, &s, query, key);
            }
            require(!seen || (step >= steps.begin && step < steps.end));
            require(seen || !(step >= steps.full_begin && step < steps.full_end));
        }
    }
}

static void lengths(bytes *in) {
    int32_t arrays[5][MOST_SEQUENCES + 1];
    const uint8_t given = next_byte(in), kind = next_byte(in);
    const int64_t count = next_between(in, 1, MOST_SEQUENCES), queries = next_between(in, 1, MOST);
    const int64_t keys = given & 1 && !(given & 2) ? queries : next_between(in, 1, MOST);
    const int ascend = kind & 1;
    for (int i = 0; i < 5; i++) {
        for (int64_t n = 0; n <= count; n++) {
            const int32_t before = n && ascend && i < 2 ? arrays[i][n - 1] : 0;
            const int32_t length = n || !ascend || i >= 2 ? next_length(in, ascend && i < 2 ? MOST / 4 : MOST + 2) : 0;
            arrays[i][n] = (int32_t)((uint32_t)before + (uint32_t)length);
        }
    }
    weft_sequences all = {{0, 0, 0, 0, 0}, count, queries, keys, given & 1, 0, 0, NULL};
    all.lengths.q_starts = given & 1 ? arrays[0] : NULL;
    all.lengths.kv_starts = given & 1 && given & 2 ? arrays[1] : NULL;
    all.lengths.q_used = given & 4 ? arrays[2] : NULL;
    all.lengths.kv_used = given & 8 ? arrays[3] : NULL;
    all.lengths.kv_pad = given & 16 ? arrays[4] : NULL;
    const weft_band band = take_band(in);
    for (int64_t i = 0; i < count; i++) {
        const weft_sequence s = weft_sequence_at(&all, i);
        require(s.rows.begin >= 0 && s.rows.begin <= s.used_end && s.used_end <= s.rows.end && s.rows.end <= queries);
        require(s.columns.begin >= 0 && s.columns.begin <= s.columns.end && s.columns.end <= keys);
        for (int64_t row = s.rows.begin; row < s.rows.end; row++) {
            const weft_rows seen = weft_band_seen(&band, &s, row);
            require(seen.begin >= s.columns.begin && seen.begin <= seen.end && seen.end <= s.columns.end);
            for (int64_t column = 0; column < keys; column++) {
                require((column >= seen.begin && column < seen.end) == sees(&band, &s, row, column));
            }
        }
    }
    const int transposed = kind >> 1 & 1, joined = !transposed && all.packed && kind & 4;
    const int64_t rows = transposed ? keys : queries, columns = transposed ? queries : keys;
    const int64_t tile_rows = next_between(in, 1, rows + 2), tile_columns = next_between(in, 1, columns + 2);
    weft_reach reach = weft_reach_make(rows, columns, tile_rows, tile_columns, weft_slice_full(rows, columns));
    weft_reach_set_band(&reach, band, all, transposed);
    reach.joined = joined;
    unsigned char tiles[MOST] = {0};
    for (int64_t block = 0; block < weft_reach_tiles(&reach); block++) {
        const weft_cut cut = weft_reach_cut(&reach, 0, block, 1);
        require(cut.sequence >= 0 && cut.sequence < count && cut.rows.end - cut.rows.begin <= reach.tile_rows);
        require(cut.rows.begin >= 0 && cut.rows.begin <= cut.rows.end && cut.rows.end <= rows);
        for (int64_t row = cut.rows.begin; row < cut.rows.end; row++) {
            tiles[row]++;
        }
        check_tile(&reach, &cut);
    }
    const int32_t *starts = weft_reach_starts(&reach);
    for (int64_t row = 0; row < rows && are_right(&all); row++) {
        require(tiles[row] == (!starts || row < starts[count]));
    }
}

/* An array of the size that is asked for, and not a byte more. */
static int32_t *take_list(bytes *in, int64_t count, int32_t most) {
    int32_t *list = malloc((size_t)(count > 0 ? count : 1) * sizeof *list);
    require(list != NULL);
    for (int64_t i = 0; i < count; i++) {
        list[i] = next_length(in, most);
    }
    return list;
}

static void blocks(bytes *in) {
    const int64_t block_rows = next_between(in, 1, 4), rows = next_between(in, 1, MOST),
                  lists = weft_ceil_divide(rows, block_rows);
    const int64_t entries = next_between(in, 0, MOST_ENTRIES), columns = next_between(in, 1, 4 * BLOCK_COLUMNS);
    static const int64_t steps[] = {8, 16, 32};
    const int64_t tile_columns = steps[next_byte(in) % 3];
    int32_t *starts = take_list(in, lists + 1, MOST_ENTRIES), *list = take_list(in, entries, 4);
    int32_t *bits_at = take_list(in, entries, 2);
    weft_blocks given = {
        {starts, list, bits_at, NULL, NULL}, block_rows, BLOCK_COLUMNS, 0, 0, entries, 0, 0, {0, 0, 0}, {0, 0, 0}};
    weft_reach reach = weft_reach_make(rows, columns, block_rows, tile_columns, weft_slice_full(rows, columns));
    weft_reach_set_band(&reach, take_band(in), (weft_sequences){{0, 0, 0, 0, 0}, 1, rows, columns, 0, 0, 0, NULL}, 0);
    weft_reach_set_blocks(&reach, given);
    const weft_blocks *b = &reach.blocks;
    const int64_t all_steps = weft_ceil_divide(columns, tile_columns), row = next_byte(in) % rows;
    const weft_rows found = weft_blocks_entries(b, 0, 0, row);
    int ascends = 1;
    require(found.begin >= 0 && found.begin <= found.end && found.end <= entries);
    for (int64_t i = found.begin; i < found.end; i++) {
        const int64_t number = weft_blocks_number(b, i);
        require(number >= 0 && number * BLOCK_COLUMNS < columns);
        ascends &= i == found.begin || number > weft_blocks_number(b, i - 1);
    }
    const int64_t begin = next_byte(in) % (all_steps + 1), end = next_byte(in) % (all_steps + 1);
    const weft_rows numbers = weft_blocks_steps(b, found, begin, end);
    uint32_t visited = 0;
    require(numbers.begin <= numbers.end);
    for (int64_t n = numbers.begin; n < numbers.end; n++) {
        const int64_t step = weft_blocks_step(b, found.begin, n);
        const int32_t bits = weft_blocks_bits(b, found.begin, n);
        require(step >= 0 && step < all_steps + (int64_t)b->by_steps.value);
        if (ascends) {
            require(step >= begin && step < end && !(visited >> step & 1));
            visited |= UINT32_C(1) << step;
            require(bits == bits_at[weft_blocks_entry(b, 0, 0, row, step * tile_columns)]);
        }
    }
    for (int64_t step = begin; step < end && ascends; step++) {
        require((visited >> step & 1) == (weft_blocks_entry(b, 0, 0, row, step * tile_columns) >= 0));
    }
    free(starts);
    free(list);
    free(bits_at);
}

static void pages(bytes *in) {
    const int64_t each = next_between(in, 1, 6), batch = next_between(in, 1, 3), page = next_between(in, 1, 9);
    uint64_t fault = 0;
    int32_t *table = take_list(in, each * batch, 9);
    const weft_pages lists = {table, page, next_between(in, 1, 9), each, weft_divisor_make((uint64_t)page), &fault};
    for (int64_t i = 0; i < batch * each * page; i++) {
        const int64_t sequence = i / (each * page), column = i % (each * page);
        const int32_t entry = table[sequence * each + column / page];
        const weft_page_row at = weft_page_of(&lists, sequence, column);
        require(at.row == column % page && at.page == (entry >= 0 && entry < lists.pages ? entry : -1));
        if (at.page < 0) {
            weft_page_tell(&lists, sequence, column);
            require((uint32_t)fault == (uint32_t)entry && fault >> 32 == (uint64_t)(sequence * each + column / page));
        }
    }
    free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bytes in = {data, size};
    const uint8_t part = next_byte(&in);
    (part % 4 == 0 ? blocks : part % 4 == 1 ? pages : lengths)(&in);
    return 0;
}
