/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured on a GPU, written down: CSV for records, text beside the simulator's view; and what to run instead. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "studies/device_bench.h"
#include "table.h"

/* What the simulator counts of a counter, NaN for what it does not. */
static double simulated(const device_case *c, weft_counter counter) {
    const weft_traffic *t = &c->sim.total;
    if (c->sim.tflops <= 0) {
        return NAN;
    }
    switch (counter) {
    case WEFT_COUNTER_L2_SECTORS:
        return (double)t->sectors;
    case WEFT_COUNTER_L2_SECTORS_FROM_SM:
        return (double)t->sectors_from_sm;
    case WEFT_COUNTER_FABRIC_SECTORS:
        return (double)t->fabric_sectors;
    case WEFT_COUNTER_L2_HITS:
        return (double)t->hits;
    case WEFT_COUNTER_L2_MISSES:
        return (double)t->misses;
    case WEFT_COUNTER_DRAM_READ_BYTES:
        return (double)t->dram_read_bytes;
    case WEFT_COUNTER_DRAM_WRITE_BYTES:
        return (double)t->dram_write_bytes;
    case WEFT_COUNTER_DURATION:
        return 1e9 * c->sim.seconds;
    default:
        return NAN;
    }
}

/* Empty where there is nothing. */
static void csv_number(FILE *file, double value) {
    if (isnan(value)) {
        fputc(',', file);
    } else {
        fprintf(file, ",%.10g", value);
    }
}

static void csv_gemm(FILE *file, const device_case *c) {
    const weft_gemm *p = &c->problem.gemm;
    const weft_schedule *s = &c->schedule;
    fprintf(file, ",%lld,%lld,%lld,%s,%lldx%lld,%s,%lld,%d,%s,%s,%lld,%lldx%lld,%lld", (long long)p->m, (long long)p->n,
            (long long)p->k, weft_dtype_name(p->dtype), (long long)s->tile_m, (long long)s->tile_n,
            weft_order_describe(s->order)->name, (long long)s->group, (int)s->table, weft_sweep_describe(s->sweep)->name,
            weft_dispatch_describe(s->dispatch)->name, (long long)s->workers, (long long)s->cluster_m,
            (long long)s->cluster_n, (long long)s->split);
}

static void csv_attention(FILE *file, const device_case *c) {
    const weft_attention *p = &c->problem.attention;
    const weft_schedule *s = &c->schedule;
    fprintf(file, ",%lld,%lld,%lld,%lld,%lld,%lld,%s,%d,%lldx%lld,%s,%s,%s,%lld,%lld,%d,%d,%d", (long long)p->batch,
            (long long)p->heads, (long long)p->kv_heads, (long long)p->seq, (long long)p->kv_seq, (long long)p->head_dim,
            weft_dtype_name(p->dtype), p->mask != WEFT_MASK_NONE, (long long)s->tile_m, (long long)s->tile_n,
            weft_order_describe(s->order)->name, weft_sweep_describe(s->sweep)->name,
            weft_dispatch_describe(s->dispatch)->name, (long long)s->workers, (long long)s->domains, (int)c->options.ctas,
            c->by_side, (int)c->options.mask_every_block);
}

static const char attention_columns[] = "study,gpu,kernel,batch,heads,kv_heads,seq,kv_seq,head_dim,dtype,causal,tile,order,"
                                        "sweep,dispatch,workers,domains,ctas,by_side,mask_every_block,seconds,tflops";

/* The columns of an operation's problems and schedules. */
static const struct {
    const char *columns;
    void (*put)(FILE *file, const device_case *c);
} tables[] = {[WEFT_ATTENTION] = {attention_columns, csv_attention},
              [WEFT_ATTENTION_BACKWARD] = {attention_columns, csv_attention},
              [WEFT_GEMM] = {
                  "study,gpu,kernel,m,n,k,dtype,tile,order,group,table,sweep,dispatch,workers,cluster,split,seconds,tflops",
                  csv_gemm}};

void device_case_csv_header(FILE *file, int32_t operation) {
    fputs(tables[operation].columns, file);
    for (int32_t i = 0; i < WEFT_COUNTERS; i++) {
        fprintf(file, ",%s", weft_counter_describe(i)->key);
    }
    for (int32_t i = 0; i < WEFT_COUNTERS; i++) {
        fprintf(file, ",simulated_%s", weft_counter_describe(i)->key);
    }
    fputs(",joules,watts\n", file);
}

void device_case_csv(FILE *file, const char *study, const char *gpu, const device_case *c) {
    fprintf(file, "%s,%s,%s", study, gpu, c->kernel);
    tables[c->problem.operation].put(file, c);
    csv_number(file, c->seconds);
    csv_number(file, c->tflops);
    for (int32_t i = 0; i < WEFT_COUNTERS; i++) {
        csv_number(file, c->values[i]);
    }
    for (int32_t i = 0; i < WEFT_COUNTERS; i++) {
        csv_number(file, simulated(c, (weft_counter)i));
    }
    csv_number(file, c->energy.joules > 0 ? c->energy.joules : NAN);
    csv_number(file, c->energy.joules > 0 ? c->energy.watts : NAN);
    fputc('\n', file);
}

void device_case_print(const device_case *c) {
    print_wrapped("%-24s%20s%20s  %s\n", "counter", "measured", "simulated", "unit");
    for (int32_t i = 0; i < WEFT_COUNTERS; i++) {
        const weft_counter_info *info = weft_counter_describe(i);
        const double sim = simulated(c, (weft_counter)i);
        const int digits = fabs(c->values[i]) < 1000 ? 3 : 0;
        if (isnan(c->values[i])) {
            print_wrapped("%-24s%20s", info->key, "not on this chip");
        } else {
            print_wrapped("%-24s%20.*f", info->key, digits, c->values[i]);
        }
        if (isnan(sim)) {
            print_wrapped("%20s  %s\n", "", info->unit);
        } else {
            print_wrapped("%20.0f  %s\n", sim, info->unit);
        }
    }
}

json_t *device_case_json(const device_case *c) {
    json_t *object = json_object();
    for (int32_t i = 0; i < WEFT_COUNTERS; i++) {
        weft_json_set(&object, weft_counter_describe(i)->key, isnan(c->values[i]) ? json_null() : json_real(c->values[i]));
    }
    return object;
}

json_t *device_energy_json(const weft_energy *e, double flops) {
    return json_pack("{s:f, s:f, s:f, s:f, s:I, s:b}", "joules", e->joules, "watts", e->watts, "seconds", e->seconds,
                     "tflop_per_joule", flops / e->joules / 1e12, "runs", (json_int_t)e->runs, "settled", e->settled);
}

void device_energy_print(const weft_energy *e, double flops) {
    print_wrapped("energy: %.4g J a run, %.1f W, %.4g TFLOP/J (%" PRId64 " runs of %.6f s%s)\n", e->joules, e->watts,
                  flops / e->joules / 1e12, e->runs, e->seconds, e->settled ? "" : "; clocks had not settled");
}

/* The kernel keeps the arguments with a null after each. */
void device_command(char *text, size_t size) {
    char arguments[4096];
    size_t used = 0;
    FILE *file = fopen("/proc/self/cmdline", "r");
    const size_t length = file ? fread(arguments, 1, sizeof arguments - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    arguments[length] = '\0';
    snprintf(text, size, "%s", length ? "" : "weft run attention --device cuda");
    for (size_t at = 0; at < length; at += strlen(arguments + at) + 1) {
        if (strcmp(arguments + at, "--counters") != 0 && used < size) {
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " " : "", arguments + at);
        }
    }
}
