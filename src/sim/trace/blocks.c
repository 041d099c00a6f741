/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/trace/blocks.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

int weft_trace_grow(void *array, size_t *room, size_t needed, size_t size) {
    void **data = array;
    if (needed <= *room) {
        return 1;
    }
    size_t more = *room ? *room + *room / 2 : 256;
    more = more < needed ? needed : more;
    void *grown = more <= SIZE_MAX / size ? realloc(*data, more * size) : NULL;
    if (!grown) {
        return 0;
    }
    *data = grown;
    *room = more;
    return 1;
}

static int64_t no_memory(weft_message *message) {
    weft_fail(message, WEFT_NO_MEMORY, "no memory for the trace");
    return WEFT_TRACE_NO_MEMORY;
}

/* FNV-1a. */
static uint32_t hash_name(const char *name, size_t length) {
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++) {
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    }
    return hash % WEFT_TRACE_HASHES;
}

/* A name that a line, a list and a page can hold: visible ASCII, but no comma or colon. */
static int is_name(const char *name, size_t length) {
    int fine = length > 0 && length < WEFT_TRACE_NAME;
    for (size_t i = 0; fine && i < length; i++) {
        fine = name[i] > ' ' && name[i] < 127 && name[i] != ',' && name[i] != ':';
    }
    return fine;
}

/* Puts the blocks of a declared tensor behind those that there are. */
static int declare(weft_trace_blocks *b, uint32_t tensor, int64_t blocks) {
    if (!weft_trace_grow(&b->blocks, &b->blocks_room, b->pieces + (size_t)blocks, sizeof *b->blocks)) {
        return 0;
    }
    b->names[tensor].first = (uint32_t)b->pieces;
    b->names[tensor].blocks = blocks;
    for (int64_t i = 0; i < blocks; i++) {
        b->blocks[b->pieces++] = (weft_trace_block){i, tensor, 0};
    }
    return 1;
}

int64_t weft_trace_tensor(weft_trace_blocks *b, const char *name, size_t length, int64_t blocks, weft_message *message) {
    const uint32_t hash = hash_name(name, length);
    for (uint32_t i = b->by_hash[hash]; i != 0; i = b->names[i - 1].next) {
        if (strncmp(b->names[i - 1].text, name, length) == 0 && b->names[i - 1].text[length] == '\0') {
            return i - 1;
        }
    }
    if (!is_name(name, length)) {
        weft_fail(message, WEFT_INVALID,
                  "the name of a tensor is 1 to %d visible ASCII characters without , and :", WEFT_TRACE_NAME - 1);
        return WEFT_TRACE_WRONG;
    }
    if (b->declared && blocks == 0) {
        weft_fail(message, WEFT_INVALID, "%.*s is none of the tensors that the first line names", (int)length, name);
        return WEFT_TRACE_WRONG;
    }
    if (b->tensors == WEFT_TRACE_TENSORS || (uint64_t)blocks > WEFT_TRACE_PIECES - b->pieces) {
        weft_fail(message, WEFT_INVALID, "a trace has at most %d tensors and 2^30 blocks", WEFT_TRACE_TENSORS);
        return WEFT_TRACE_WRONG;
    }
    if (!weft_trace_grow(&b->names, &b->names_room, b->tensors + 1, sizeof *b->names)) {
        return no_memory(message);
    }
    weft_trace_name *n = &b->names[b->tensors];
    memset(n, 0, sizeof *n);
    memcpy(n->text, name, length);
    n->next = b->by_hash[hash];
    b->by_hash[hash] = (uint32_t)++b->tensors;
    return blocks > 0 && !declare(b, (uint32_t)b->tensors - 1, blocks) ? no_memory(message) : (int64_t)b->tensors - 1;
}

static size_t hash_block(int64_t tensor, int64_t block) {
    uint64_t x = (uint64_t)block * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)tensor * UINT64_C(0xc2b2ae3d27d4eb4f);
    x ^= x >> 32;
    return (size_t)(x * UINT64_C(0xd6e8feb86659fd93) >> 20);
}

/* Doubles the table. Returns 0 when memory ran out. */
static int rehash(weft_trace_blocks *b) {
    const size_t slots = b->slots ? 2 * b->slots : 1024;
    uint32_t *table = calloc(slots, sizeof *table);
    if (!table) {
        return 0;
    }
    for (size_t i = 0; i < b->pieces; i++) {
        size_t at = hash_block(b->blocks[i].tensor, b->blocks[i].block) & (slots - 1);
        while (table[at] != 0) {
            at = (at + 1) & (slots - 1);
        }
        table[at] = (uint32_t)i + 1;
    }
    free(b->table);
    b->table = table;
    b->slots = slots;
    return 1;
}

/* The piece of a block that need not be declared; -1 when memory ran out, or there are too many. */
static int64_t find_block(weft_trace_blocks *b, int64_t tensor, int64_t block) {
    if (2 * (b->pieces + 1) > b->slots && !rehash(b)) {
        return -1;
    }
    size_t at = hash_block(tensor, block) & (b->slots - 1);
    for (; b->table[at] != 0; at = (at + 1) & (b->slots - 1)) {
        const weft_trace_block *known = &b->blocks[b->table[at] - 1];
        if (known->block == block && known->tensor == tensor) {
            return b->table[at] - 1;
        }
    }
    if (b->pieces == WEFT_TRACE_PIECES || !weft_trace_grow(&b->blocks, &b->blocks_room, b->pieces + 1, sizeof *b->blocks)) {
        return -1;
    }
    b->blocks[b->pieces] = (weft_trace_block){block, (uint32_t)tensor, 0};
    b->table[at] = (uint32_t)++b->pieces;
    return (int64_t)b->pieces - 1;
}

int64_t weft_trace_piece(weft_trace_blocks *b, int64_t tensor, int64_t block, int64_t bytes, weft_message *message) {
    const weft_trace_name *name = &b->names[tensor];
    if (block < 0 || (b->declared && block >= name->blocks)) {
        weft_fail(message, WEFT_INVALID, b->declared ? "%s has no block %lld: it has %lld" : "%s has no block %lld",
                  name->text, (long long)block, (long long)name->blocks);
        return WEFT_TRACE_WRONG;
    }
    if (bytes < 1 || bytes > INT32_MAX) {
        weft_fail(message, WEFT_INVALID, "bytes %lld is not between 1 and %d", (long long)bytes, INT32_MAX);
        return WEFT_TRACE_WRONG;
    }
    const int64_t piece = b->declared ? name->first + block : find_block(b, tensor, block);
    if (piece < 0) {
        return no_memory(message);
    }
    weft_trace_block *known = &b->blocks[piece];
    if (known->bytes != 0 && known->bytes != (uint64_t)bytes) {
        weft_fail(message, WEFT_INVALID, "block %lld of %s has %lld bytes, but had %u before", (long long)block, name->text,
                  (long long)bytes, known->bytes);
        return WEFT_TRACE_WRONG;
    }
    known->bytes = (uint32_t)bytes;
    return piece;
}

/* A block and where it was. */
typedef struct placed {
    weft_trace_block block;
    uint32_t piece;
} placed;

static int by_block(const void *a, const void *b) {
    const weft_trace_block *x = &((const placed *)a)->block, *y = &((const placed *)b)->block;
    return x->tensor != y->tensor ? (x->tensor > y->tensor) - (x->tensor < y->tensor)
                                  : (x->block > y->block) - (x->block < y->block);
}

int weft_trace_sort_blocks(weft_trace_blocks *b, uint32_t *number) {
    if (b->declared) {
        for (size_t i = 0; i < b->pieces; i++) {
            number[i] = (uint32_t)i;
        }
        return 1;
    }
    free(b->table);
    b->table = NULL;
    b->slots = 0;
    placed *list = malloc(b->pieces * sizeof *list);
    if (!list) {
        return 0;
    }
    for (size_t i = 0; i < b->pieces; i++) {
        list[i] = (placed){b->blocks[i], (uint32_t)i};
    }
    qsort(list, b->pieces, sizeof *list, by_block);
    for (size_t i = 0; i < b->pieces; i++) {
        b->blocks[i] = list[i].block;
        number[list[i].piece] = (uint32_t)i;
        b->names[list[i].block.tensor].blocks++;
    }
    free(list);
    return 1;
}

/* Numbers the blocks of each tensor from 0 on, which their own numbers need not do. */
weft_source_tensor *weft_trace_tensors(weft_trace_blocks *b) {
    weft_source_tensor *tensors = calloc(b->tensors ? b->tensors : 1, sizeof *tensors);
    for (size_t i = 0; tensors && i < b->tensors; i++) {
        tensors[i].name = b->names[i].text;
        tensors[i].blocks = b->names[i].blocks;
    }
    uint32_t first = 0;
    for (size_t i = 0; tensors && i < b->pieces; i++) {
        weft_trace_block *block = &b->blocks[i];
        weft_source_tensor *t = &tensors[block->tensor];
        first = i > 0 && b->blocks[i - 1].tensor == block->tensor ? first : (uint32_t)i;
        block->block = (int64_t)i - first;
        t->block_bytes = block->bytes > t->block_bytes ? block->bytes : t->block_bytes;
        t->bytes += block->bytes;
    }
    for (size_t i = 0; tensors && i < b->tensors; i++) { /* nobody asked for a tensor that is empty still */
        tensors[i].blocks += tensors[i].blocks == 0;
        tensors[i].block_bytes += tensors[i].block_bytes == 0;
    }
    return tensors;
}

void weft_trace_blocks_release(weft_trace_blocks *b) {
    free(b->names);
    free(b->blocks);
    free(b->table);
    memset(b, 0, sizeof *b);
}
