/* SPDX-License-Identifier: Apache-2.0 */
#include "dist/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/struct.h"
#include "dist/tags.h"

/* Parts of the time limit: a run that is shorter than the first sends no words; who is asked again, after so long; how
 * often is listened; and who has not answered for so long is silent. */
static const double QUIET = 1.0 / 8, AGAIN = 1.0 / 8, LISTEN = 1.0 / 128, SILENT = 1.0 / 2;

weft_status weft_peers_open(weft_peers *peers, const weft_transport *transport, double seconds, weft_message *message) {
    const size_t size = (size_t)transport->size;
    *peers = (weft_peers){.transport = WEFT_TRANSPORT_INIT, .seconds = seconds};
    const weft_status status =
        weft_struct_take(&peers->transport, sizeof peers->transport, sizeof(size_t) + sizeof(void *),
                         transport->words ? transport->words : transport, "WEFT_TRANSPORT_INIT", message);
    if (status) {
        return status;
    }
    if (peers->transport.rank != transport->rank || peers->transport.size != transport->size) {
        return weft_fail(message, WEFT_INVALID, "the transport of words is of rank %d of %d, not %d of %d",
                         (int)peers->transport.rank, (int)peers->transport.size, (int)transport->rank,
                         (int)transport->size);
    }
    peers->mute = peers->transport.on_device == WEFT_DEVICE_MEMORY;
    peers->list = calloc(size, sizeof *peers->list);
    peers->chain = calloc(size, sizeof *peers->chain);
    if (!peers->list || !peers->chain) {
        weft_peers_close(peers);
        return weft_fail(message, WEFT_NO_MEMORY, "no memory to talk to %zu ranks", size);
    }
    return WEFT_OK;
}

void weft_peers_close(weft_peers *peers) {
    weft_peers_end(peers);
    if (!peers->lost) {
        free(peers->list);
    }
    free(peers->chain);
    *peers = (weft_peers){.lost = peers->lost};
}

static void give_up_mail(weft_peers *peers, weft_mail *mail) {
    if (mail->handle) {
        peers->lost |= !peers->transport.cancel(peers->transport.self, mail->handle);
        mail->handle = NULL;
    }
}

void weft_peers_end(weft_peers *peers) {
    for (int32_t rank = 0; peers->list && rank < peers->transport.size; rank++) {
        weft_peer *peer = &peers->list[rank];
        give_up_mail(peers, &peer->in);
        give_up_mail(peers, &peer->ask);
        give_up_mail(peers, &peer->answer);
        give_up_mail(peers, &peer->farewell);
        peer->asked = peer->owes = 0;
        peer->asked_at = 0;
        peer->said.kind = 0;
    }
}

void weft_peers_begin(weft_peers *peers) {
    weft_peers_end(peers);
    peers->began = peers->since = peers->heard = weft_now();
    peers->over = WEFT_OK;
    peers->verdict.count = 0;
}

void weft_peers_wait(weft_peers *peers) {
    peers->since = weft_now();
}

/* ---- words ---- */

/* Whether a word is on its way no more. */
static int has_ended(const weft_peers *peers, weft_mail *mail) {
    int32_t done = 1;
    if (mail->handle) {
        /* Whoever cannot be reached does not answer either, and is named for that. */
        const weft_status status = peers->transport.test(peers->transport.self, mail->handle, &done, NULL);
        mail->handle = status || done ? NULL : mail->handle;
    }
    return done;
}

static void tell(const weft_peers *peers, int32_t rank, weft_mail *mail) {
    const weft_transport *t = &peers->transport;
    if (t->send(t->self, &mail->word, sizeof mail->word, rank, WEFT_TAG_WORD, &mail->handle, NULL)) {
        mail->handle = NULL;
    }
}

/* "rank 3 has", or "ranks 2, 3 have". */
static void name_ranks(const weft_word *who, char *text, size_t size) {
    size_t at = (size_t)snprintf(text, size, who->count > 1 ? "ranks " : "rank ");
    for (int32_t i = 0; i < who->count && at < size; i++) {
        at += (size_t)snprintf(text + at, size - at, "%s%d", i ? ", " : "", (int)who->ranks[i]);
    }
    if (at < size) {
        snprintf(text + at, size - at, who->count > 1 ? " have" : " has");
    }
}

static void hear(weft_peers *peers, int32_t rank, const weft_word *word) {
    weft_peer *peer = &peers->list[rank];
    char names[128];
    if (word->count < 0 || word->count > WEFT_WORD_RANKS) {
        return; /* not a word of this version */
    }
    switch (word->kind) {
    case WEFT_WORD_ASKS:
        peer->owes = word->number;
        break;
    case WEFT_WORD_COMPUTES:
    case WEFT_WORD_WAITS:
        if (word->number == peer->asked) {
            peer->said = *word;
            peer->asked = 0;
            peers->since = word->kind == WEFT_WORD_COMPUTES ? weft_now() : peers->since;
        }
        break;
    case WEFT_WORD_GIVES_UP:
        if (word->count > 0) {
            name_ranks(word, names, sizeof names);
            peers->over = weft_fail(&peers->why, WEFT_FAILED, "%s not answered for %g s, says rank %d", names,
                                    peers->seconds, (int)rank);
        } else {
            peers->over =
                weft_fail(&peers->why, WEFT_FAILED, "rank %d has given up: what its run returned says why", (int)rank);
        }
        break;
    default:
        break;
    }
}

/* Hears all words that have come. */
static void listen(weft_peers *peers) {
    const weft_transport *t = &peers->transport;
    for (int32_t rank = 0; rank < t->size; rank++) {
        weft_mail *in = &peers->list[rank].in;
        weft_status status = WEFT_OK;
        int32_t done = rank != t->rank;
        while (done && !status) {
            done = 0;
            if (in->handle) {
                status = t->test(t->self, in->handle, &done, NULL);
            } else {
                memset(&in->word, 0, sizeof in->word);
                status = t->receive(t->self, &in->word, sizeof in->word, rank, WEFT_TAG_WORD, &in->handle, NULL);
                done = !in->handle;
                if (in->handle && !status) {
                    status = t->test(t->self, in->handle, &done, NULL);
                }
            }
            if (status || done) {
                in->handle = NULL;
            }
            if (!status && done) {
                hear(peers, rank, &in->word);
            }
        }
    }
}

static void answer(weft_peers *peers, const weft_word *waits) {
    for (int32_t rank = 0; rank < peers->transport.size; rank++) {
        weft_peer *peer = &peers->list[rank];
        if (peer->owes && has_ended(peers, &peer->answer)) {
            peer->answer.word = *waits;
            peer->answer.word.kind = waits->count > 0 ? WEFT_WORD_WAITS : WEFT_WORD_COMPUTES;
            peer->answer.word.number = peer->owes;
            peer->owes = 0;
            tell(peers, rank, &peer->answer);
        }
    }
}

/* ---- who is silent ---- */

static int is_silent(const weft_peers *peers, const weft_peer *peer, double now) {
    return peer->asked && now - peer->asked_at > SILENT * peers->seconds;
}

static void ask(weft_peers *peers, int32_t rank, double now) {
    weft_peer *peer = &peers->list[rank];
    if (peers->mute || peer->asked || now - peer->asked_at < AGAIN * peers->seconds || !has_ended(peers, &peer->ask)) {
        return;
    }
    const uint64_t number = (uint64_t)(now * 1e9); /* other problems of this process have other numbers */
    peers->number = number > peers->number ? number : peers->number + 1;
    peer->asked = peers->number;
    peer->asked_at = now;
    peer->ask.word = (weft_word){.number = peers->number, .kind = WEFT_WORD_ASKS};
    tell(peers, rank, &peer->ask);
}

/* Asks those that are waited for, and those that these wait for. Returns how many: peers->chain has them. */
static int32_t ask_chain(weft_peers *peers, const weft_word *waits, double now) {
    static const weft_word nobody = {.count = 0};
    int32_t count = 0;
    const weft_word *from = waits;
    for (int32_t rank = 0; rank < peers->transport.size; rank++) {
        peers->list[rank].chained = rank == peers->transport.rank;
    }
    for (int32_t next = 0; from; next++) {
        for (int32_t i = 0; i < from->count && i < WEFT_WORD_RANKS; i++) {
            const int32_t rank = from->ranks[i];
            if (rank >= 0 && rank < peers->transport.size && !peers->list[rank].chained) {
                peers->list[rank].chained = 1;
                peers->chain[count++] = rank;
                ask(peers, rank, now);
            }
        }
        from = NULL;
        if (next < count) {
            const weft_peer *peer = &peers->list[peers->chain[next]];
            from = is_silent(peers, peer, now) ? &nobody : &peer->said;
        }
    }
    return count;
}

/* The time limit has passed. */
static weft_status judge(weft_peers *peers, int32_t count, const weft_word *waits, double now, weft_message *message) {
    weft_word *silent = &peers->verdict;
    char names[128];
    silent->count = 0;
    for (int32_t i = 0; i < count && silent->count < WEFT_WORD_RANKS; i++) {
        if (peers->mute || is_silent(peers, &peers->list[peers->chain[i]], now)) {
            silent->ranks[silent->count++] = peers->chain[i];
        }
    }
    if (silent->count == 0) {
        return weft_fail(message, WEFT_FAILED,
                         "rank %d has sent or taken nothing for %g s, and waits itself: do all ranks run the same problem?",
                         (int)waits->ranks[0], peers->seconds);
    }
    name_ranks(silent, names, sizeof names);
    return weft_fail(message, WEFT_FAILED, "%s not answered for %g s", names, peers->seconds);
}

weft_status weft_peers_tend(weft_peers *peers, const weft_word *waits, weft_message *message) {
    const double now = weft_now();
    const int due = now - peers->began > QUIET * peers->seconds && now - peers->heard > LISTEN * peers->seconds;
    if (due && !peers->over) {
        peers->heard = now;
        if (!peers->mute) {
            listen(peers);
            answer(peers, waits);
        }
        if (waits->count > 0 && !peers->over) {
            const int32_t count = ask_chain(peers, waits, now);
            if (now - peers->since > peers->seconds) {
                return judge(peers, count, waits, now, message);
            }
        }
    }
    return peers->over ? weft_fail(message, peers->over, "%s", peers->why.text) : WEFT_OK;
}

void weft_peers_give_up(weft_peers *peers) {
    const double begin = weft_now(), patience = peers->seconds * QUIET < 1 ? peers->seconds * QUIET : 1;
    int left = 1;
    if (peers->over || peers->mute) {
        return; /* whoever has given up before has told all */
    }
    for (int32_t rank = 0; rank < peers->transport.size; rank++) {
        weft_mail *mail = &peers->list[rank].farewell;
        if (rank != peers->transport.rank) {
            mail->word = peers->verdict;
            mail->word.kind = WEFT_WORD_GIVES_UP;
            tell(peers, rank, mail);
        }
    }
    while (left && weft_now() - begin < patience) {
        left = 0;
        for (int32_t rank = 0; rank < peers->transport.size; rank++) {
            left |= !has_ended(peers, &peers->list[rank].farewell);
        }
        weft_pause(left ? 1e-4 : 0);
    }
}
