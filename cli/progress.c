/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

/* A piece of work, and how much of it the piece inside it stands for. */
typedef struct level {
    const char *what;
    double units, done, inner;
} level;

enum { LEVELS = 4 };

/* There is one terminal, so there is one line; what is shown of it is guarded by the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static level levels[LEVELS];
static int depth;
static int drawn;           /* the line is there */
static double began, shown; /* when; shown is 0 until a time left is */

int progress_seen(void) {
    return isatty(STDERR_FILENO);
}

static void wipe(void) {
    if (drawn) {
        fputs("\r\033[K", stderr);
        drawn = 0;
    }
}

/* The share that is done of the outermost piece, 0 .. 1. */
static double share_done(void) {
    double share = 0;
    for (int i = depth; i-- > 0;) {
        const level *l = &levels[i];
        share = l->units > 0 ? (l->done + l->inner * share) / l->units : 0;
    }
    return fmin(share, 1);
}

/* Ten times a second at most. */
static void show(void) {
    const double share = share_done(), time = weft_now();
    if (depth == 0 || (shown > 0 && time - shown < 0.1)) {
        return;
    }
    wipe();
    drawn = 1;
    if (share > 0) {
        shown = time;
        fprintf(stderr, "%s: %.0f %%, about %.0f s left", levels[depth - 1].what, 100 * share,
                ceil((time - began) * (1 - share) / share));
    } else {
        fprintf(stderr, "%s ...", levels[depth - 1].what);
    }
}

void progress_begin(const char *what, double units) {
    if (!progress_seen() || depth == LEVELS) {
        return;
    }
    pthread_mutex_lock(&lock);
    if (depth == 0) {
        began = weft_now();
        shown = 0;
    }
    levels[depth++] = (level){what, units, 0, 0};
    show();
    pthread_mutex_unlock(&lock);
}

void progress_next(double units) {
    pthread_mutex_lock(&lock);
    if (depth > 0) {
        levels[depth - 1].inner = units;
    }
    pthread_mutex_unlock(&lock);
}

void progress_add(double units) {
    pthread_mutex_lock(&lock);
    if (depth > 0) {
        levels[depth - 1].done += units;
        show();
    }
    pthread_mutex_unlock(&lock);
}

void progress_end(void) {
    pthread_mutex_lock(&lock);
    wipe();
    depth -= depth > 0;
    if (depth > 0) {
        levels[depth - 1].done += levels[depth - 1].inner;
        levels[depth - 1].inner = 0;
    }
    pthread_mutex_unlock(&lock);
}

void progress_wipe(void) {
    pthread_mutex_lock(&lock);
    wipe();
    pthread_mutex_unlock(&lock);
}

void progress_say(const char *format, ...) {
    va_list arguments;
    if (!progress_seen()) {
        return;
    }
    pthread_mutex_lock(&lock);
    wipe();
    drawn = 1;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    pthread_mutex_unlock(&lock);
}

void progress_told(void *user, int64_t done, int64_t total) {
    progress_part *part = user;
    const double units = total > 0 ? part->units * (double)done / (double)total : 0;
    progress_add(units - part->told);
    part->told = units;
}

void progress_part_end(progress_part *part) {
    progress_told(part, 1, 1);
}
