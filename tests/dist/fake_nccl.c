/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_nccl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cuda/fake_streams.h"
#include "dist/nccl/library.h"

#define EXPORT __attribute__((visibility("default")))

/* The prototypes come from the list that the library is loaded by, so the two cannot differ. */
#define WEFT_NCCL_SYMBOL(result, field, symbol, parameters) EXPORT result symbol parameters;
#include "dist/nccl/symbols.def"
#undef WEFT_NCCL_SYMBOL

enum { MOST_MESSAGES = 64, MOST_FAKE_RANKS = 16, IN_PROGRESS = 7, INVALID = 4 };

EXPORT fake_nccl_counts fake_nccl_counted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int script(const char *word, int otherwise) {
    const char *text = getenv("FAKE_NCCL"), *found = text;
    const size_t length = strlen(word);
    while (found && (found = strstr(found, word))) {
        if ((found == text || found[-1] == ' ') && found[length] == '=') {
            return atoi(found + length + 1);
        }
        found += length;
    }
    return otherwise;
}

/* Ranks that have met by an id. */
typedef struct meeting {
    struct meeting *next;
    weft_nccl_id id;
    int size, arrived, left;
} meeting;

typedef struct group group;

typedef struct letter {
    struct letter *next; /* of those that wait for their other end */
    group *of;
    char *at;
    size_t bytes;
    int from, to, is_receive, done;
} letter;

typedef struct comm {
    struct comm *next;
    meeting *at;
    int rank, is_aborted;
    group *held; /* that has ended and is not on its stream yet */
    int asked;
} comm;

struct group {
    comm *of;
    void *stream;
    int count, published;
    letter letters[MOST_MESSAGES];
};

static meeting *meetings;
static comm *comms;     /* all there have been: what is on a stream may look at them */
static letter *waiting; /* of all meetings, in their order */
static _Thread_local group *open;

int ncclGetVersion(int *version) {
    *version = script("version", 22105);
    return 0;
}

const char *ncclGetErrorString(int result) {
    return result == 6 ? "remote process exited" : "as scripted";
}

int ncclGetUniqueId(weft_nccl_id *id) {
    static int ids;
    memset(id, 0, sizeof *id);
    snprintf(id->bytes, sizeof id->bytes, "meeting %d", __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED));
    return script("id", 0);
}

int ncclCommInitRankConfig(void **made, int size, weft_nccl_id id, int rank, weft_nccl_config *config) {
    if (script("init", 0) || config->magic != WEFT_NCCL_MAGIC || config->blocking || rank >= size) {
        return script("init", INVALID);
    }
    comm *c = calloc(1, sizeof *c);
    pthread_mutex_lock(&lock);
    meeting *m = meetings;
    while (m && memcmp(&m->id, &id, sizeof id) != 0) {
        m = m->next;
    }
    if (!m) {
        m = calloc(1, sizeof *m);
        *m = (meeting){.next = meetings, .id = id, .size = size};
        meetings = m;
    }
    m->arrived++;
    *c = (comm){.next = comms, .at = m, .rank = rank};
    comms = c;
    fake_nccl_counted.comms++;
    pthread_mutex_unlock(&lock);
    *made = c;
    return IN_PROGRESS;
}

/* ---- groups ---- */

/* Brings a letter and its other end together, if that is there. */
static void match(letter *l) {
    for (letter **at = &waiting; *at; at = &(*at)->next) {
        letter *other = *at;
        if (other->of->of->at == l->of->of->at && other->from == l->from && other->to == l->to &&
            other->is_receive != l->is_receive) {
            const letter *send = l->is_receive ? other : l, *receive = l->is_receive ? l : other;
            fake_nccl_counted.mismatches += send->bytes != receive->bytes;
            memcpy(receive->at, send->at, send->bytes < receive->bytes ? send->bytes : receive->bytes);
            *at = other->next;
            l->done = other->done = 1;
            return;
        }
    }
    letter **last = &waiting;
    while (*last) {
        last = &(*last)->next;
    }
    l->next = NULL;
    *last = l;
}

/* The work of a group on its stream. */
static int run_group(void *self) {
    group *g = *(group **)self;
    int done = 1;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < g->count && !g->published && !g->of->is_aborted; i++) {
        match(&g->letters[i]);
    }
    g->published = 1;
    for (int i = 0; i < g->count; i++) {
        done &= g->letters[i].done;
    }
    if (g->of->is_aborted) {
        for (letter **at = &waiting; *at;) {
            if ((*at)->of == g) {
                *at = (*at)->next;
            } else {
                at = &(*at)->next;
            }
        }
        done = 1;
    }
    pthread_mutex_unlock(&lock);
    if (done) {
        free(g);
    }
    return done;
}

int ncclGroupStart(void) {
    if (script("begin", 0)) {
        return script("begin", 0);
    }
    open = calloc(1, sizeof *open);
    return open ? 0 : 3;
}

static int add(letter l, int peer, void *of, void *stream) {
    comm *c = of;
    if (!open || open->count == MOST_MESSAGES || peer < 0 || peer >= c->at->size || c->is_aborted || c->held ||
        (open->count > 0 && (open->of != c || open->stream != stream))) {
        return INVALID;
    }
    open->of = c;
    open->stream = stream;
    l.of = open;
    l.from = l.is_receive ? peer : c->rank;
    l.to = l.is_receive ? c->rank : peer;
    open->letters[open->count++] = l;
    fake_nccl_counted.messages++;
    return 0;
}

int ncclSend(const void *buffer, size_t count, int type, int peer, void *of, void *stream) {
    const int result = type == WEFT_NCCL_BYTES ? script("send", 0) : INVALID;
    return result ? result : add((letter){.at = (char *)(uintptr_t)buffer, .bytes = count}, peer, of, stream);
}

int ncclRecv(void *buffer, size_t count, int type, int peer, void *of, void *stream) {
    const int result = type == WEFT_NCCL_BYTES ? script("receive", 0) : INVALID;
    return result ? result : add((letter){.at = buffer, .bytes = count, .is_receive = 1}, peer, of, stream);
}

static void put_on_stream(group *g) {
    fake_stream_add(g->stream, run_group, &g, sizeof g);
}

int ncclGroupEnd(void) {
    group *g = open;
    open = NULL;
    if (!g || script("group", 0) || g->count == 0) {
        free(g);
        return script("group", g ? 0 : INVALID);
    }
    __atomic_add_fetch(&fake_nccl_counted.groups, 1, __ATOMIC_RELAXED);
    if (script("late", 0) == 0) {
        put_on_stream(g);
        return 0;
    }
    g->of->held = g;
    g->of->asked = 0;
    return IN_PROGRESS;
}

/* ---- communicators ---- */

int ncclCommGetAsyncError(void *of, int *result) {
    comm *c = of;
    pthread_mutex_lock(&lock);
    const int all = c->at->arrived == c->at->size;
    pthread_mutex_unlock(&lock);
    if (c->held && ++c->asked > script("late", 0)) {
        put_on_stream(c->held);
        c->held = NULL;
    }
    *result = script("async", all && !c->held ? 0 : IN_PROGRESS);
    return script("error", 0);
}

int ncclCommCount(void *of, int *size) {
    *size = ((comm *)of)->at->size;
    return script("count", 0);
}

int ncclCommUserRank(void *of, int *rank) {
    *rank = ((comm *)of)->rank;
    return script("rank", 0);
}

int ncclCommCuDevice(void *of, int *device) {
    (void)of;
    *device = 0;
    return script("device", 0);
}

int ncclCommFinalize(void *of) {
    (void)of;
    return script("finish", 0);
}

int ncclCommDestroy(void *of) {
    (void)of;
    __atomic_sub_fetch(&fake_nccl_counted.comms, 1, __ATOMIC_SEQ_CST);
    return 0;
}

int ncclCommAbort(void *of) {
    comm *c = of;
    pthread_mutex_lock(&lock);
    c->is_aborted = 1;
    fake_nccl_counted.aborted++;
    free(c->held);
    c->held = NULL;
    pthread_mutex_unlock(&lock);
    return ncclCommDestroy(of);
}
