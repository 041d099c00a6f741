/* SPDX-License-Identifier: Apache-2.0 */
#include "dist/prices.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/struct.h"
#include "dist/kinds.h"
#include "plan/plan.h"
#include "problem/problem.h"

/* A launch of more steps is simulated until it has settled. */
static const uint64_t most_steps = 4000000;

weft_status weft_prices_open(weft_prices *prices, const weft_dist_simulate_options *options, weft_message *message) {
    const weft_plan_options init = WEFT_PLAN_OPTIONS_INIT;
    const weft_simulate_options usual = WEFT_SIMULATE_INIT;
    *prices = (weft_prices){.options = init, .simulate = usual, .room = 256};
    prices->options.machine = options->machine;
    weft_status status = weft_struct_take_options(&prices->simulate, sizeof prices->simulate, options->simulate,
                                                  "WEFT_SIMULATE_INIT", message);
    status = status ? status : weft_schedule_copy(&prices->schedule, options->schedule, message);
    if (status) {
        return status;
    }
    prices->simulate.progress = NULL; /* of one kernel: nobody wants to be told */
    prices->options.device = options->device;
    prices->heads_apart = options->heads_apart;
    prices->adding = options->adding > 0 ? options->adding : 1;
    prices->table = calloc(prices->room, sizeof *prices->table);
    return prices->table ? WEFT_OK : weft_fail(message, WEFT_NO_MEMORY, "no memory for what kernels cost");
}

void weft_prices_close(weft_prices *prices) {
    free(prices->table);
    *prices = (weft_prices){0};
}

/* ---- asking the simulator ---- */

/* What a launch takes that neither the profile nor what is known of the kernel says. */
static double launch_of(const weft_plan *plan, const weft_profile *given) {
    weft_profile profile = WEFT_PROFILE_INIT;
    weft_kernel_facts facts = {0};
    if (plan->backend->facts) {
        plan->backend->facts(plan, &facts);
    }
    if (!given && weft_profile_load(&profile, weft_plan_profile(plan), NULL) == WEFT_OK) {
        given = &profile;
    }
    return facts.launch > 0 || (given && given->launch > 0) ? 0 : plan->machine.launch;
}

weft_status weft_price_ask(const weft_plan_options *options, const weft_simulate_options *simulate, const void *problem,
                           double *seconds, weft_message *message) {
    weft_simulation simulation = WEFT_SIMULATION_INIT;
    weft_plan *plan;
    weft_status status = weft_plan_create(&plan, problem, options, message);
    if (!status) {
        status = weft_simulate_steps(plan) > most_steps ? weft_simulate_settled(plan, simulate, &simulation, message)
                                                        : weft_simulate(plan, simulate, &simulation, NULL, message);
    }
    if (!status) {
        *seconds += simulation.seconds + launch_of(plan, simulate ? simulate->profile : NULL);
    }
    weft_plan_destroy(plan);
    return status;
}

/* Sums are added up by other kernels: schedule and profile are not the attention's. */
weft_status weft_price_combine(const weft_prices *prices, const weft_combine *c, double times, double *seconds,
                               weft_message *message) {
    weft_plan_options options = prices->options;
    double one = 0;
    options.schedule = NULL;
    options.device = NULL;
    const weft_status status = weft_price_ask(&options, NULL, c, &one, message);
    *seconds += times * one;
    return status;
}

/* ---- the table ---- */

static size_t hash_of(const weft_price_key *key) {
    const int64_t parts[] = {key->kind, key->variant, key->mask, key->rows, key->keys, key->offset, key->left, key->right};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        hash = (hash ^ (uint64_t)parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return (size_t)hash;
}

/* Where a key is, or where it goes. */
static weft_price *place_of(weft_price *table, size_t room, const weft_price_key *key) {
    size_t at = hash_of(key) & (room - 1);
    while (table[at].seconds > 0 && memcmp(&table[at].key, key, sizeof *key) != 0) {
        at = (at + 1) & (room - 1);
    }
    return &table[at];
}

static weft_status grow(weft_prices *prices, weft_message *message) {
    const size_t room = 2 * prices->room;
    weft_price *table = calloc(room, sizeof *table);
    if (!table) {
        return weft_fail(message, WEFT_NO_MEMORY, "no memory for what kernels cost");
    }
    for (size_t i = 0; i < prices->room; i++) {
        if (prices->table[i].seconds > 0) {
            *place_of(table, room, &prices->table[i].key) = prices->table[i];
        }
    }
    free(prices->table);
    prices->table = table;
    prices->room = room;
    return WEFT_OK;
}

static weft_status price_of(weft_prices *prices, weft_price_key wanted, double *seconds, weft_message *message) {
    wanted.variant = prices->dist->kind->variant(prices->dist);
    const weft_price_key *key = &wanted;
    if (memcmp(&prices->last.key, key, sizeof *key) == 0 && prices->last.seconds > 0) { /* most are like the one before */
        *seconds = prices->last.seconds;
        return WEFT_OK;
    }
    weft_price *price = place_of(prices->table, prices->room, key);
    weft_status status = WEFT_OK;
    if (price->seconds <= 0) {
        double asked = 0;
        status = 2 * prices->count >= prices->room ? grow(prices, message) : WEFT_OK;
        status = status ? status : prices->dist->kind->ask(prices, key, &asked, message);
        if (status || asked <= 0) { /* nothing is done */
            *seconds = 0;
            return status;
        }
        price = place_of(prices->table, prices->room, key);
        *price = (weft_price){*key, asked};
        prices->count++;
    }
    prices->last = *price;
    *seconds = price->seconds;
    return WEFT_OK;
}

weft_status weft_price_slice(weft_prices *prices, const weft_dist_slice *s, double *seconds, weft_message *message) {
    const weft_price_key key = {.kind = WEFT_PRICE_SLICE,
                                .mask = (int64_t)s->mask,
                                .rows = s->queries.end - s->queries.begin,
                                .keys = s->keys.end - s->keys.begin,
                                .offset = s->offset,
                                .left = s->left,
                                .right = s->right};
    return price_of(prices, key, seconds, message);
}

weft_status weft_price_home(weft_prices *prices, int64_t rows, double *seconds, weft_message *message) {
    return price_of(prices, (weft_price_key){.kind = WEFT_PRICE_HOME, .rows = rows}, seconds, message);
}

weft_status weft_price_rounding(weft_prices *prices, int64_t queries, int64_t keys, double *seconds,
                                weft_message *message) {
    return price_of(prices, (weft_price_key){.kind = WEFT_PRICE_ROUNDING, .rows = queries, .keys = keys}, seconds, message);
}

weft_status weft_price_whole(weft_prices *prices, double *seconds, weft_message *message) {
    return price_of(prices, (weft_price_key){.kind = WEFT_PRICE_WHOLE}, seconds, message);
}
