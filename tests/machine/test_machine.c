/* SPDX-License-Identifier: Apache-2.0 */
/* Machines: the built-in ones against the literature, every error with its file and line, and files gone wrong. */
#include "../cmocka_all.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/machine.h>

#include "base/embedded.h"
#include "base/names.h"

/* A whole and right machine. Errors are made from it, so the line numbers below are those of this text. */
static const char right[] = "# a small machine\n"                  /* 1 */
                            "[machine]\n"                          /* 2 */
                            "name = small\n"                       /* 3 */
                            "title = A small machine\n"            /* 4 */
                            "[workers]\n"                          /* 5 */
                            "count = 12 | counted\n"               /* 6 */
                            "domains = 2 | counted\n"              /* 7 */
                            "handout = round-robin | assumed\n"    /* 8 */
                            "clock = 1.5e9 | datasheet\n"          /* 9 */
                            "shared_bytes = 64 KiB | datasheet\n"  /* 10 */
                            "run = 1 | assumed\n"                  /* 11 */
                            "gpcs = 5 | datasheet\n"               /* 12 */
                            "gpc_workers = 4 | datasheet\n"        /* 13 */
                            "[l2]\n"                               /* 14 */
                            "bytes = 1.5 MiB | datasheet\n"        /* 15 */
                            "line = 128 | datasheet\n"             /* 16 */
                            "sector = 32 | datasheet\n"            /* 17 */
                            "ways = 16 | datasheet\n"              /* 18 */
                            "replacement = random | datasheet\n"   /* 19 */
                            "home = split | datasheet\n"           /* 20 */
                            "usable = 0.9 | assumed\n"             /* 21 */
                            "slack = 0.05 | fitted\n"              /* 22 */
                            "crowded = 0.125 | fitted\n"           /* 23 */
                            "write = miss | assumed\n"             /* 24 */
                            "bandwidth = 2e12 | a = b: c\n"        /* 25 */
                            "[llc]\n"                              /* 26 */
                            "bytes = 0 | datasheet\n"              /* 27 */
                            "bandwidth = 0 | none\n"               /* 28 */
                            "[dram]\n"                             /* 29 */
                            "bandwidth = 300000000000 | counted\n" /* 30 */
                            "[latency]\n"                          /* 31 */
                            "near = 200 | datasheet\n"             /* 32 */
                            "far = 400.5 | datasheet\n"            /* 33 */
                            "dram = 600 | datasheet\n"             /* 34 */
                            "[rate]\n"                             /* 35 */
                            "fp32 = 1e12 | datasheet\n"            /* 36 */
                            "fp16 = 2e12 | datasheet\n"            /* 37 */
                            "bf16 = 2E+12 | datasheet\n"           /* 38 */
                            "exp = 0.5e12 | datasheet\n"           /* 39 */
                            "[profile]\n"                          /* 40 */
                            "attention = study\n"                  /* 41 */
                            "backward = generic | assumed\n"       /* 42 */
                            "gemm = mine | M\xc3\xbcller\n";       /* 43 */
enum { ROOM = 48 };

static weft_status parse(const char *text, size_t length, weft_machine *machine, weft_message *message) {
    memset(machine, 0x5a, sizeof *machine);
    machine->struct_size = sizeof *machine;
    memset(message, 0, sizeof *message);
    return weft_machine_parse(machine, text, length, "t.ini", message);
}

static int is_zero(const weft_machine *machine) {
    const weft_machine zero = WEFT_MACHINE_INIT;
    return memcmp(machine, &zero, sizeof zero) == 0;
}

/* The bytes of line `number`, from 1, with its end; returns where it starts. */
static size_t find_line(const char *text, size_t length, int number, size_t *bytes) {
    size_t start = 0;
    for (;; number--) {
        const char *end = memchr(text + start, '\n', length - start);
        size_t next = end ? (size_t)(end - text) + 1 : length;
        if (number == 1) {
            *bytes = next - start;
            return start;
        }
        start = next;
    }
}

/* A copy of `text` with `take` bytes at `at` replaced by `put`. The caller frees it. */
static char *splice(const char *text, size_t length, size_t at, size_t take, const char *put, size_t put_bytes,
                    size_t *new_length) {
    *new_length = length - take + put_bytes;
    char *copy = malloc(*new_length + 1);
    assert_non_null(copy);
    memcpy(copy, text, at);
    if (put_bytes) {
        memcpy(copy + at, put, put_bytes);
    }
    memcpy(copy + at + put_bytes, text + at + take, length - at - take);
    copy[*new_length] = '\0';
    return copy;
}

/* `right` with one line replaced must give exactly this message. */
static void expect_error_bytes(int number, const char *line, size_t line_bytes, const char *expected) {
    size_t bytes, length, at = find_line(right, sizeof right - 1, number, &bytes);
    char *text = splice(right, sizeof right - 1, at, bytes, line, line_bytes, &length);
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message;
    assert_int_equal(parse(text, length, &machine, &message), WEFT_INVALID);
    assert_string_equal(message.text, expected);
    assert_true(is_zero(&machine));
    free(text);
}

static void expect_error(int number, const char *line, const char *expected) {
    expect_error_bytes(number, line, strlen(line), expected);
}

static void test_right_text(void **state) {
    (void)state;
    weft_machine m = WEFT_MACHINE_INIT;
    weft_message message;
    assert_int_equal(parse(right, sizeof right - 1, &m, &message), WEFT_OK);
    assert_string_equal(message.text, "");
    assert_string_equal(m.name, "small");
    assert_string_equal(m.title, "A small machine");
    assert_int_equal(m.workers, 12);
    assert_int_equal(m.domains, 2);
    assert_int_equal(m.handout, WEFT_HANDOUT_ROUND_ROBIN);
    assert_int_equal(m.handout_run, 1);
    assert_true(m.clock == 1.5e9);
    assert_int_equal(m.shared_bytes, 65536);
    assert_int_equal(m.l2_bytes, 1572864);
    assert_int_equal(m.l2_line, 128);
    assert_int_equal(m.l2_sector, 32);
    assert_int_equal(m.l2_ways, 16);
    assert_int_equal(m.l2_replacement, WEFT_REPLACEMENT_RANDOM);
    assert_int_equal(m.l2_home, WEFT_HOME_SPLIT);
    assert_true(m.l2_bandwidth == 2e12);
    assert_int_equal(m.llc_bytes, 0);
    assert_true(m.dram_bandwidth == 3e11);
    assert_true(m.near_latency == 200 && m.far_latency == 400.5 && m.dram_latency == 600);
    assert_true(m.matrix_fp32 == 1e12 && m.matrix_fp16 == 2e12 && m.matrix_bf16 == 2e12);
    assert_true(m.exp_rate == 0.5e12);
    assert_true(m.l2_crowded == 0.125);
    assert_string_equal(m.attention_profile, "study");
    assert_string_equal(m.backward_profile, "generic");
    assert_string_equal(m.gemm_profile, "mine");
}

/* What joins GPUs: whole, or not at all. */
static void test_links(void **state) {
    (void)state;
    static const char links[] = "gemm = mine | Müller\n"                /* 43 */
                                "[links]\n"                             /* 44 */
                                "topology = mesh | datasheet\n"         /* 45 */
                                "gpus = 16 | datasheet\n"               /* 46 */
                                "bandwidth = 5e10 | datasheet\n"        /* 47 */
                                "latency = 1e-6 | assumed\n"            /* 48 */
                                "network_bandwidth = 2e9 | datasheet\n" /* 49 */
                                "network_latency = 3e-6 | assumed\n";   /* 50 */
    size_t bytes, length, at = find_line(right, sizeof right - 1, 43, &bytes);
    char *text = splice(right, sizeof right - 1, at, bytes, links, sizeof links - 1, &length);
    weft_machine m = WEFT_MACHINE_INIT;
    weft_message message;
    assert_int_equal(parse(text, length, &m, &message), WEFT_OK);
    assert_int_equal(m.link_topology, WEFT_TOPOLOGY_MESH);
    assert_int_equal(m.link_gpus, 16);
    assert_true(m.link_bandwidth == 5e10 && m.link_latency == 1e-6 && m.network_bandwidth == 2e9 &&
                m.network_latency == 3e-6 && m.launch == 0);
    free(text);
    assert_int_equal(parse(right, sizeof right - 1, &m, &message), WEFT_OK); /* a file without any */
    assert_true(m.link_gpus == 0 && m.link_bandwidth == 0);
    static const struct {
        const char *lines, *says;
    } wrong[] = {
        {"gemm = a | b\n[links]\ngpus = 8 | c\n", "t.ini:45: gpus 8 of a node need the bandwidth of their links"},
        {"gemm = a | b\n[links]\nbandwidth = 1e9 | c\n", "t.ini:45: links need gpus, the number of GPUs of a node"},
        {"gemm = a | b\n[links]\nnetwork_latency = 1e-6 | c\n", "t.ini:45: links need gpus, the number of GPUs of a node"},
        {"gemm = a | b\n[links]\ngpus = 1 | c\nnetwork_latency = 1e-6 | c\n",
         "t.ini:46: network_latency needs network_bandwidth"},
        {"gemm = a | b\n[links]\ntopology = star | c\n", "t.ini:45: topology = star: must be switch|full|ring|mesh"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        expect_error(43, wrong[i].lines, wrong[i].says);
    }
}

/* Line ends of other systems, a byte order mark and a last line without an end change nothing. */
static void test_line_ends(void **state) {
    (void)state;
    char text[2 * sizeof right + 3] = "\xef\xbb\xbf";
    size_t used = 3;
    for (size_t i = 0; i < sizeof right - 2; i++) {
        if (right[i] == '\n') {
            text[used++] = '\r';
        }
        text[used++] = right[i];
    }
    weft_machine expected = WEFT_MACHINE_INIT, machine = WEFT_MACHINE_INIT;
    weft_message message;
    assert_int_equal(parse(right, sizeof right - 1, &expected, &message), WEFT_OK);
    assert_int_equal(parse(text, used, &machine, &message), WEFT_OK);
    assert_memory_equal(&machine, &expected, sizeof machine);
}

static void test_built_in(void **state) {
    (void)state;
    weft_machine m = WEFT_MACHINE_INIT;
    size_t count = 0;
    for (; weft_machine_name(count); count++) {
        weft_message message = {""};
        const char *name = weft_machine_name(count);
        assert_true(count == 0 || strcmp(weft_machine_name(count - 1), name) < 0);
        assert_int_equal(weft_machine_load(&m, name, &message), WEFT_OK);
        assert_string_equal(message.text, "");
        assert_string_equal(m.name, name);
    }
    assert_int_equal(count, weft_embedded_machines_count);
    assert_true(count >= 12);
    assert_null(weft_machine_name(SIZE_MAX));
    assert_int_equal(weft_machine_load(&m, "gb10", NULL), WEFT_OK);
    assert_int_equal(m.workers, 48);
    assert_int_equal(m.domains, 1);
    assert_int_equal(m.l2_bytes, 24 * 1048576);
    assert_int_equal(m.l2_sector, 32);
    assert_int_equal(m.l2_home, WEFT_HOME_NONE);
    assert_true(m.dram_bandwidth == 2.25e11);
    assert_int_equal(weft_machine_load(&m, "h100", NULL), WEFT_OK);
    assert_int_equal(m.workers, 132);
    assert_int_equal(m.domains * m.l2_bytes, 50 * 1048576);
    assert_true(m.matrix_bf16 == 9.89e14);
    assert_int_equal(weft_machine_load(&m, "h200", NULL), WEFT_OK);
    assert_int_equal(m.domains * m.l2_bytes, 62914560);
    assert_int_equal(m.workers / m.domains, 66);
    assert_int_equal(m.l2_home, WEFT_HOME_SPLIT);
    assert_true(m.dram_bandwidth == 4.8e12);
    assert_int_equal(weft_machine_load(&m, "b200", NULL), WEFT_OK);
    assert_int_equal(m.workers, 148);
    assert_int_equal(m.domains * m.l2_bytes, 132644864);
    assert_int_equal(weft_machine_load(&m, "gh200", NULL), WEFT_OK);
    assert_int_equal(m.domains * m.l2_bytes, 62914560);
    assert_true(m.dram_bandwidth == 4e12);
    assert_int_equal(weft_machine_load(&m, "a100", NULL), WEFT_OK);
    assert_int_equal(m.workers, 108);
    assert_int_equal(m.domains * m.l2_bytes, 41943040);
    assert_true(m.matrix_bf16 == 3.12e14 && m.dram_bandwidth == 2.039e12);
    assert_int_equal(weft_machine_load(&m, "a100-40gb", NULL), WEFT_OK);
    assert_true(m.dram_bandwidth == 1.555e12);
    assert_int_equal(weft_machine_load(&m, "l40s", NULL), WEFT_OK);
    assert_int_equal(m.workers, 142);
    assert_int_equal(m.l2_bytes, 96 * 1048576);
    assert_int_equal(weft_machine_load(&m, "rtx-5090", NULL), WEFT_OK);
    assert_int_equal(m.workers, 170);
    assert_true(m.dram_bandwidth == 1.792e12 && m.matrix_bf16 == 2.095e14);
    assert_int_equal(weft_machine_load(&m, "rtx-pro-6000", NULL), WEFT_OK);
    assert_int_equal(m.workers, 188);
    assert_int_equal(m.l2_bytes, 128 * 1048576);
    assert_int_equal(weft_machine_load(&m, "mi325x", NULL), WEFT_OK);
    assert_int_equal(m.workers, 304);
    assert_true(m.dram_bandwidth == 4.75e12);
    assert_int_equal(weft_machine_load(&m, "mi300x", NULL), WEFT_OK);
    assert_int_equal(m.workers, 304);
    assert_int_equal(m.domains, 8);
    assert_int_equal(m.l2_bytes, 4 * 1048576);
    assert_int_equal(m.l2_home, WEFT_HOME_PRIVATE);
    assert_int_equal(m.handout, WEFT_HANDOUT_ROUND_ROBIN);
    assert_int_equal(m.llc_bytes, 72 * 1048576);
    assert_true(m.dram_bandwidth == 4.2e12);
}

static void test_form_errors(void **state) {
    (void)state;
    char line[256], expected[64];
    expect_error(1, "count = 1 | x\n", "t.ini:1: key count stands before any [section]");
    expect_error(1, "[cache]\n", "t.ini:1: unknown section [cache]");
    expect_error(1, "[]\n", "t.ini:1: unknown section []");
    expect_error(11, "[workers]\n", "t.ini:11: duplicate section [workers]");
    expect_error(14, "[l2] x\n", "t.ini:14: a section is written [name], alone on its line");
    expect_error(14, "[l2\n", "t.ini:14: a section is written [name], alone on its line");
    expect_error(1, "[L2]\n", "t.ini:1: unknown section [L2]");
    expect_error(1, "[worker]\n", "t.ini:1: unknown section [worker]: did you mean [workers]?");
    expect_error(14, "", "t.ini:14: unknown key bytes in [workers]: it is a key of [l2]");
    expect_error(15, "size = 4 | x\n", "t.ini:15: unknown key size in [l2]");
    expect_error(15, "Bytes = 4 | x\n", "t.ini:15: unknown key Bytes in [l2]: did you mean bytes?");
    expect_error(15, "count = 4 | x\n", "t.ini:15: unknown key count in [l2]: it is a key of [workers]");
    expect_error(15, "bandwith = 4 | x\n", "t.ini:15: unknown key bandwith in [l2]: did you mean bandwidth?");
    expect_error(11, "count = 12 | counted\n", "t.ini:11: duplicate key count in [workers], first on line 6");
    expect_error(15, "", "t.ini:42: missing key bytes in [l2]");
    expect_error(41, "", "t.ini:42: missing key attention in [profile]");
    expect_error(3, "", "t.ini:42: missing key name in [machine]");
    expect_error(6, "count\n", "t.ini:6: neither [section] nor key = value | source");
    expect_error(6, "count: 12 | x\n", "t.ini:6: neither [section] nor key = value | source");
    expect_error(6, "= 12 | x\n", "t.ini:6: neither [section] nor key = value | source");
    expect_error(7, "  domains = 2 | x\n", "t.ini:7: a line must not begin with a blank: values are not continued");
    expect_error(7, "domains = 2 | x ; y\n", "t.ini:7: a comment must have its own line");
    expect_error_bytes(7, "domains = 2\0 | x\n", 17, "t.ini:7: a null byte");
    expect_error(7, "domains = 2 | \x1b[31m\n", "t.ini:7: a control character");
    expect_error(7, "domains = 2 |\rx\n", "t.ini:7: a control character");
    expect_error(7, "domains = 2 | \xff\n", "t.ini:7: not UTF-8");
    expect_error(7, "domains = 2 | \xc3\n", "t.ini:7: not UTF-8");
    expect_error(7, "domains = 2 | \xe0\x80\xaf\n", "t.ini:7: not UTF-8");
    expect_error(7, "domains = 2 | \xed\xa0\x80\n", "t.ini:7: not UTF-8");

    memset(line, '#', 200);
    memcpy(line + 197, "\n", 2);
    size_t bytes, length, at = find_line(right, sizeof right - 1, 1, &bytes);
    char *text = splice(right, sizeof right - 1, at, bytes, line, strlen(line), &length);
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message;
    assert_int_equal(parse(text, length, &machine, &message), WEFT_OK);
    free(text);
    memcpy(line + 197, "#\n", 3);
    expect_error(1, line, "t.ini:1: the line is longer than 197 bytes");
    memset(line, 0, sizeof line);
    snprintf(line, sizeof line, "ways = 1 | %0160d\n", 0);
    snprintf(expected, sizeof expected, "t.ini:18: the source of ways is longer than 159 bytes");
    expect_error(18, line, expected);
}

static void test_value_errors(void **state) {
    (void)state;
    static const char *const nonsense[] = {"",        "x",
                                           "12x",     "1 2",
                                           "nan",     "inf",
                                           "-inf",    "0x10",
                                           "1e",      "1e+",
                                           "1.",      ".5",
                                           "1..2",    "+1",
                                           "--1",     "1,5",
                                           "1e1e1",   "1e99",
                                           "1e999",   "1e-99",
                                           "1e99999", "1 KiB",
                                           "12 %",    "1e400",
                                           "٣",       "1234567890123456"};
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        char line[96], expected[160];
        snprintf(line, sizeof line, "clock = %s | x\n", nonsense[i]);
        snprintf(expected, sizeof expected, "t.ini:9: clock = %s: must be a number, in Hz", nonsense[i]);
        expect_error(9, line, expected);
    }
    expect_error(6, "count = 12\n", "t.ini:6: count has no source: write count = value | where it comes from");
    expect_error(6, "count = 12 |\n", "t.ini:6: count has no source: write count = value | where it comes from");
    expect_error(4, "title = x | \n", "t.ini:4: title has no source: write title = value | where it comes from");
    expect_error(6, "count = 0 | x\n", "t.ini:6: count = 0: must be 1 to 1048576");
    expect_error(6, "count = -12 | x\n", "t.ini:6: count = -12: must be 1 to 1048576");
    expect_error(6, "count = 1.5 | x\n", "t.ini:6: count = 1.5: must be a whole number");
    expect_error(6, "count = 9e22 | x\n", "t.ini:6: count = 9e22: must be 1 to 1048576");
    expect_error(6, "count = 99999999999999999999 | x\n", "t.ini:6: count = 99999999999999999999: must be a whole number");
    expect_error(9, "clock = 0 | x\n", "t.ini:9: clock = 0: must be 1000000 to 100000000000 Hz");
    expect_error(9, "clock = -0 | x\n", "t.ini:9: clock = -0: must be 1000000 to 100000000000 Hz");
    expect_error(10, "shared_bytes = 64 KiBit | x\n",
                 "t.ini:10: shared_bytes = 64 KiBit: must be a whole number, of bytes, kB, MB, GB, KiB, MiB or GiB");
    expect_error(10, "shared_bytes = 64.0001 kB | x\n",
                 "t.ini:10: shared_bytes = 64.0001 kB: must be a whole number, of bytes, kB, MB, GB, KiB, MiB or GiB");
    expect_error(10, "shared_bytes = 2000.0001 KiB | x\n",
                 "t.ini:10: shared_bytes = 2000.0001 KiB: must be a whole number, of bytes, kB, MB, GB, KiB, MiB or GiB");
    expect_error(15, "bytes = 9999999 GiB | x\n", "t.ini:15: bytes = 9999999 GiB: must be 1024 to 1099511627776 bytes");
    expect_error(19, "replacement = LRU | x\n", "t.ini:19: replacement = LRU: must be lru|random");
    expect_error(8, "handout = roun | x\n", "t.ini:8: handout = roun: must be any|round-robin");
    expect_error(20, "home = | x\n", "t.ini:20: home = : must be none|split|private");
    expect_error(3, "name =\n", "t.ini:3: name = : must have 1 to 31 bytes");
    expect_error(3, "name = 0123456789012345678901234567890a\n",
                 "t.ini:3: name = 0123456789012345678901234567890a: must have 1 to 31 bytes");
    expect_error(3, "name = a/b\n", "t.ini:3: name = a/b: may hold only abcdefghijklmnopqrstuvwxyz0123456789-_.");
    expect_error(23, "crowded = 0.51 | x\n", "t.ini:23: crowded = 0.51: must be 0 to 0.5");
}

static void test_cross_errors(void **state) {
    (void)state;
    expect_error(13, "gpc_workers = 5 | x\n", "t.ini:13: 12 workers do not make 5 gpcs, some of 5 and the others equal");
    expect_error(7, "domains = 5 | x\n", "t.ini:7: domains 5 does not divide the 12 workers");
    expect_error(20, "home = none | x\n", "t.ini:20: home = none needs one domain, and there are 2");
    expect_error(7, "domains = 1 | x\n", "t.ini:20: home must be none where there is one domain");
    expect_error(7, "domains = 1 | x\nhome = none | x\n", "t.ini:8: unknown key home in [workers]: it is a key of [l2]");
    expect_error(7, "domains = 4 | x\n", "t.ini:20: home = split needs two domains, and there are 4");
    expect_error(11, "run = 8 | x\n", "t.ini:11: run must be 1 where handout is round-robin");
    expect_error(17, "sector = 48 | x\n", "t.ini:17: sector 48 does not divide line 128");
    expect_error(17, "sector = 256 | x\n", "t.ini:17: sector 256 does not divide line 128");
    expect_error(15, "bytes = 1000000 | x\n", "t.ini:15: line 128 does not divide bytes 1000000");
    expect_error(18, "ways = 7 | x\n", "t.ini:18: ways 7 does not divide the 12288 lines of the L2");
    expect_error(27, "bytes = 1000 | x\n", "t.ini:27: line 128 of the L2 does not divide bytes 1000");
    expect_error(28, "bandwidth = 1e9 | x\n", "t.ini:28: bandwidth must be 0 exactly where bytes is 0");
    expect_error(33, "far = 0 | x\n", "t.ini:33: far must not be less than near");
    expect_error(34, "dram = 300 | x\n", "t.ini:34: dram must not be less than near or far");
}

/* Two lines changed at once: what is wrong only in a machine of one domain. */
static void test_one_domain(void **state) {
    (void)state;
    static const char *const far_line[] = {"far = 400.5 | x\n", "far = 0 | x\n"};
    static const char *const handout[] = {"handout = any | x\n", "handout = round-robin | x\n"};
    static const char *const expected[2][2] = {{"t.ini:33: far must be 0 where there is one domain and no last-level cache",
                                                "t.ini:8: handout = round-robin needs more than one domain"},
                                               {"", "t.ini:8: handout = round-robin needs more than one domain"}};
    for (int i = 0; i < 4; i++) {
        const int numbers[] = {7, 8, 20, 33};
        const char *const lines[] = {"domains = 1 | x\n", handout[i % 2], "home = none | x\n", far_line[i / 2]};
        size_t length = sizeof right - 1, bytes;
        char *text = splice(right, length, 0, 0, NULL, 0, &length);
        for (int j = 0; j < 4; j++) {
            size_t at = find_line(text, length, numbers[j], &bytes);
            char *next = splice(text, length, at, bytes, lines[j], strlen(lines[j]), &length);
            free(text);
            text = next;
        }
        weft_machine machine = WEFT_MACHINE_INIT;
        weft_message message;
        weft_status status = parse(text, length, &machine, &message);
        assert_int_equal(status, expected[i / 2][i % 2][0] ? WEFT_INVALID : WEFT_OK);
        assert_string_equal(message.text, expected[i / 2][i % 2]);
        free(text);
    }
}

static void test_arguments(void **state) {
    (void)state;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message = {""};
    assert_int_equal(weft_machine_load(NULL, "gb10", &message), WEFT_INVALID);
    assert_int_equal(weft_machine_load(&machine, NULL, &message), WEFT_INVALID);
    assert_true(is_zero(&machine));
    assert_int_equal(weft_machine_parse(NULL, right, 1, "t", &message), WEFT_INVALID);
    assert_int_equal(weft_machine_parse(&machine, NULL, 1, "t", &message), WEFT_INVALID);
    assert_int_equal(weft_machine_parse(&machine, NULL, 0, NULL, &message), WEFT_INVALID);
    assert_string_equal(message.text, "machine:1: missing key name in [machine]");
    assert_int_equal(weft_machine_parse(&machine, "\n\n", 2, "t", NULL), WEFT_INVALID);
    assert_int_equal(weft_machine_values(NULL, NULL, NULL, 0, NULL, &message), WEFT_INVALID);
    assert_int_equal(weft_machine_host(NULL, NULL), WEFT_INVALID);

    char *large = calloc(1, 65537);
    assert_non_null(large);
    memset(large, '\n', 65537);
    assert_int_equal(weft_machine_parse(&machine, large, 65537, "t.ini", &message), WEFT_INVALID);
    assert_string_equal(message.text, "t.ini: longer than 65536 bytes");
    assert_int_equal(weft_machine_parse(&machine, large, 65536, "t.ini", &message), WEFT_INVALID);
    assert_string_equal(message.text, "t.ini:65536: missing key name in [machine]");

    /* A long name must not push out what is wrong. */
    memset(large, 'd', 400);
    large[400] = '\0';
    assert_int_equal(weft_machine_parse(&machine, "x", 1, large, &message), WEFT_INVALID);
    assert_non_null(strstr(message.text, "d:1: neither [section] nor key"));
    assert_memory_equal(message.text, "...d", 4);
    free(large);
}

static void test_not_found(void **state) {
    (void)state;
    static const char *const names[] = {"h300", "", "H 100", "gb10 ", "host2", "quadro"};
    static const char *const near[] = {": did you mean h100? T", "; t", ": did you mean a100? T",
                                       ": did you mean gb10? T", "; t", "; t"};
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message;
    for (size_t i = 0; i < 6; i++) {
        char expected[512], all[256] = "";
        memset(&machine, 0x5a, sizeof machine);
        machine.struct_size = sizeof machine;
        for (size_t k = 0; weft_machine_name(k); k++) {
            strcat(strcat(all, weft_machine_name(k)), ", ");
        }
        snprintf(expected, sizeof expected, "no machine \"%s\"%shere are %shost, or give a file by its path", names[i],
                 near[i], all);
        assert_int_equal(weft_machine_load(&machine, names[i], &message), WEFT_NOT_FOUND);
        assert_string_equal(message.text, expected);
        assert_true(is_zero(&machine));
    }
}

static void test_any_case(void **state) {
    (void)state;
    weft_machine upper = WEFT_MACHINE_INIT, lower = WEFT_MACHINE_INIT;
    assert_int_equal(weft_machine_load(&upper, "H200", NULL), WEFT_OK);
    assert_int_equal(weft_machine_load(&lower, "h200", NULL), WEFT_OK);
    assert_memory_equal(&upper, &lower, sizeof lower);
    assert_int_equal(weft_machine_load(&upper, "Host", NULL), WEFT_OK);
    assert_string_equal(upper.name, "host");
    assert_int_equal(weft_machine_load(&upper, "H200.ini", NULL), WEFT_NOT_FOUND); /* a file */
}

/* Aliases are found as names are, belong to one machine each, and are no machine's name. */
static void test_aliases(void **state) {
    (void)state;
    static const struct {
        const char *alias, *name;
    } some[] = {{"H100-SXM", "h100"},     {"h100sxm", "h100"},   {"RTX5090", "rtx-5090"},
                {"rtx_5090", "rtx-5090"}, {"5090", "rtx-5090"},  {"spark", "gb10"},
                {"MI300", "mi300x"},      {"A100-80GB", "a100"}, {"RTXPRO6000", "rtx-pro-6000"},
                {"GraceHopper", "gh200"}, {"cpu", "host"},       {"a10040gb", "a100-40gb"}};
    weft_machine m = WEFT_MACHINE_INIT;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        assert_int_equal(weft_machine_load(&m, some[i].alias, NULL), WEFT_OK);
        assert_string_equal(m.name, some[i].name);
    }
    for (size_t i = 0; i < weft_embedded_machines_count; i++) {
        char list[sizeof m.aliases];
        assert_int_equal(weft_machine_load(&m, weft_machine_name(i), NULL), WEFT_OK);
        memcpy(list, m.aliases, sizeof list);
        assert_string_equal(m.name, weft_machine_name(i));
        for (char *alias = strtok(list, ", "); alias; alias = strtok(NULL, ", ")) {
            int owners = weft_names_agree(alias, "host") + weft_names_agree(alias, "cpu") + weft_names_agree(alias, "all");
            for (size_t k = 0; k < weft_embedded_machines_count; k++) {
                assert_int_equal(weft_machine_load(&m, weft_machine_name(k), NULL), WEFT_OK);
                owners += weft_names_agree(alias, m.name) + weft_names_list(m.aliases, alias);
            }
            assert_int_equal(owners, 1);
        }
    }
    assert_int_equal(weft_machine_load(&m, "", NULL), WEFT_NOT_FOUND);
    assert_int_equal(weft_machine_load(&m, "-", NULL), WEFT_NOT_FOUND);
    assert_int_equal(weft_machine_load(&m, ",", NULL), WEFT_NOT_FOUND);
    assert_int_equal(weft_machine_load(&m, "h100-sxm, h100-sxm5", NULL), WEFT_NOT_FOUND);
    expect_error(4, "title = x\naliases = A100\n",
                 "t.ini:5: aliases = A100: may hold only abcdefghijklmnopqrstuvwxyz0123456789-_., ");
}

/* `right` with these lines in place of its GPCs. */
static weft_status parse_with_gpcs(const char *lines, weft_machine *machine, weft_message *message) {
    char text[sizeof right + 128] = "";
    size_t bytes, used = 0;
    for (size_t at = 0; at < sizeof right - 1; at += bytes) {
        bytes = strcspn(right + at, "\n") + 1;
        if (strncmp(right + at, "gpc", 3) != 0) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%.*s", (int)bytes, right + at);
        }
        if (strncmp(right + at, "[workers]", 9) == 0) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s", lines);
        }
    }
    return parse(text, used, machine, message);
}

/* GPCs may be left out; what is wrong with them is reported at a line that the file has. */
static void test_gpcs(void **state) {
    (void)state;
    weft_machine machine = WEFT_MACHINE_INIT;
    weft_message message;
    assert_int_equal(parse_with_gpcs("", &machine, &message), WEFT_OK);
    assert_true(machine.gpcs == 0 && machine.gpc_workers == 0);
    assert_int_equal(parse_with_gpcs("gpcs = 4 | x\ngpc_workers = 3 | x\n", &machine, &message), WEFT_OK);
    assert_true(machine.gpcs == 4 && machine.gpc_workers == 3);
    assert_int_equal(parse_with_gpcs("gpcs = 4 | x\n", &machine, &message), WEFT_INVALID);
    assert_string_equal(message.text, "t.ini:6: 12 workers do not make 4 gpcs, some of 0 and the others equal");
    assert_int_equal(parse_with_gpcs("gpc_workers = 12 | x\n", &machine, &message), WEFT_INVALID);
    assert_string_equal(message.text, "t.ini:6: 12 workers do not make 0 gpcs, some of 12 and the others equal");
}

static void write_file(const char *path, const char *text, size_t length) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void test_files(void **state) {
    (void)state;
    char folder[] = "/tmp/weft-machine-XXXXXX", path[64], missing[64], below[64], expected[128];
    weft_machine machine = WEFT_MACHINE_INIT, same = WEFT_MACHINE_INIT;
    weft_message message;
    weft_machine_value values[ROOM] = {WEFT_MACHINE_VALUE_INIT};
    size_t count;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.ini", folder);
    snprintf(missing, sizeof missing, "%s/b.ini", folder);
    snprintf(below, sizeof below, "%s/a.ini/c", folder);

    write_file(path, right, sizeof right - 1);
    assert_int_equal(weft_machine_load(&machine, path, &message), WEFT_OK);
    assert_int_equal(weft_machine_parse(&same, right, sizeof right - 1, "t", &message), WEFT_OK);
    assert_memory_equal(&machine, &same, sizeof same);
    assert_int_equal(weft_machine_values(path, &machine, values, ROOM, &count, &message), WEFT_OK);
    assert_string_equal(values[count - 1].source, "M\xc3\xbcller");

    write_file(path, right, sizeof right - 2);
    assert_int_equal(weft_machine_load(&machine, path, &message), WEFT_OK);
    write_file(path, right, find_line(right, sizeof right - 1, 7, &count));
    snprintf(expected, sizeof expected, "%s:6: missing key domains in [workers]", path);
    assert_int_equal(weft_machine_values(path, &machine, values, ROOM, &count, &message), WEFT_INVALID);
    assert_string_equal(message.text, expected);
    assert_int_equal(count, 0);
    assert_true(is_zero(&machine));

    char *large = malloc(70000);
    assert_non_null(large);
    memset(large, '#', 70000);
    write_file(path, large, 70000);
    free(large);
    snprintf(expected, sizeof expected, "%s: longer than 65536 bytes", path);
    assert_int_equal(weft_machine_load(&machine, path, &message), WEFT_INVALID);
    assert_string_equal(message.text, expected);

    snprintf(expected, sizeof expected, "%s: no such file", missing);
    assert_int_equal(weft_machine_load(&machine, missing, &message), WEFT_NOT_FOUND);
    assert_string_equal(message.text, expected);
    assert_int_equal(weft_machine_load(&machine, below, &message), WEFT_NOT_FOUND);
    snprintf(expected, sizeof expected, "%s: a directory, not a file", folder);
    assert_int_equal(weft_machine_load(&machine, folder, &message), WEFT_IO);
    assert_string_equal(message.text, expected);
    if (geteuid() != 0) { /* root may read everything */
        assert_int_equal(chmod(path, 0), 0);
        snprintf(expected, sizeof expected, "%s: no permission to read it", path);
        assert_int_equal(weft_machine_load(&machine, path, &message), WEFT_IO);
        assert_string_equal(message.text, expected);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* What is listed, written down as a file, is the same machine: so listings lose nothing, and the host passes every check.
 */
static void test_values_round_trip(void **state) {
    (void)state;
    for (size_t i = 0; i <= weft_embedded_machines_count; i++) {
        const char *name = i < weft_embedded_machines_count ? weft_embedded_machines[i].name : "host";
        char text[16384];
        size_t used = 0, count = 0, only = 0;
        weft_machine machine = WEFT_MACHINE_INIT, same = WEFT_MACHINE_INIT;
        weft_message message = {""};
        weft_machine_value values[ROOM] = {WEFT_MACHINE_VALUE_INIT}, few[2] = {WEFT_MACHINE_VALUE_INIT};
        assert_int_equal(weft_machine_values(name, &machine, values, ROOM, &count, &message), WEFT_OK);
        assert_in_range(count, 20, ROOM);
        assert_int_equal(weft_machine_load(&same, name, &message), WEFT_OK);
        assert_memory_equal(&machine, &same, sizeof same);
        memset(few, 0x5a, sizeof few);
        few[0].struct_size = sizeof few[0];
        assert_int_equal(weft_machine_values(name, NULL, few, 1, &only, &message), WEFT_OK);
        assert_int_equal(only, count);
        assert_string_equal(few[0].value, name);
        assert_int_equal(few[1].value[0], 0x5a);
        for (size_t j = 0; j < count; j++) {
            const weft_machine_value *v = &values[j];
            assert_true(v->text[0] && (v->value[0] || strcmp(v->key, "aliases") == 0)); /* a file may lack it */
            assert_true(v->source[0] || strcmp(v->section, "machine") == 0);
            if (j == 0 || strcmp(v->section, values[j - 1].section) != 0) {
                used += (size_t)snprintf(text + used, sizeof text - used, "[%s]\n", v->section);
            }
            used += (size_t)snprintf(text + used, sizeof text - used, "%s = %s%s%s\n", v->key, v->value,
                                     v->source[0] ? " | " : "", v->source);
            assert_in_range(used, 1, sizeof text - 1);
        }
        assert_int_equal(weft_machine_parse(&same, text, used, name, &message), WEFT_OK);
        assert_memory_equal(&machine, &same, sizeof same);
    }
}

static void test_host(void **state) {
    (void)state;
    weft_machine host = WEFT_MACHINE_INIT, loaded = WEFT_MACHINE_INIT;
    assert_int_equal(weft_machine_host(&host, NULL), WEFT_OK);
    assert_int_equal(weft_machine_load(&loaded, "host", NULL), WEFT_OK);
    assert_memory_equal(&host, &loaded, sizeof host);
    assert_string_equal(host.name, "host");
    assert_int_equal(host.workers, sysconf(_SC_NPROCESSORS_ONLN));
    assert_int_equal(host.workers % host.domains, 0);
    assert_true(host.l2_bytes >= 65536);
}

/* Numbers mean the same in a program that has set a locale with a decimal comma. */
static void test_locale(void **state) {
    (void)state;
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8") && !setlocale(LC_NUMERIC, "fr_FR.UTF-8")) {
        skip();
    }
    test_right_text(state);
    test_values_round_trip(state);
    setlocale(LC_NUMERIC, "C");
}

/* An error must name the file and a line that it has. */
static void expect_located(const char *message, int lines) {
    int line = 0, used = 0;
    assert_int_equal(sscanf(message, "t.ini:%d:%n", &line, &used), 1);
    assert_true(used > 0 && message[used] == ' ' && message[used + 1]);
    assert_in_range(line, 1, lines);
}

/* Whether a file may lack this line. Of the two of GPCs, a file has both or none. */
static int is_optional(const char *line) {
    static const char *const keys[] = {"aliases", "fp8",     "queue",           "waiting",
                                       "launch",  "latency", "network_latency", "topology"};
    int found = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        found |= strncmp(line, keys[i], strlen(keys[i])) == 0;
    }
    return found;
}

/* Each line of each built-in file deleted, doubled and spoiled in turn: an error with its line, or, for a line that says
 * nothing, the same machine. */
static void test_mutations(void **state) {
    (void)state;
    for (size_t i = 0; i < weft_embedded_machines_count; i++) {
        const char *text = weft_embedded_machines[i].text;
        size_t length = weft_embedded_machines[i].length, at = 0;
        weft_machine original = WEFT_MACHINE_INIT, machine = WEFT_MACHINE_INIT;
        weft_message message;
        assert_int_equal(parse(text, length, &original, &message), WEFT_OK);
        int lines = 0;
        for (size_t j = 0; j < length; j++) {
            lines += text[j] == '\n';
        }
        for (int number = 1; number <= lines; number++) {
            size_t bytes, changed;
            at = find_line(text, length, number, &bytes);
            int silent = text[at] == '#' || text[at] == '\n';
            char spoiled[512];
            snprintf(spoiled, sizeof spoiled, "%.*s", (int)bytes, text + at);
            for (int kind = 0; kind < 4; kind++) {
                int title = strncmp(spoiled, "title", 5) == 0;
                if (kind == 3 && (silent || spoiled[0] == '[' || title)) {
                    continue; /* no value to spoil */
                }
                char *mutant;
                if (kind == 0) {
                    mutant = splice(text, length, at, bytes, NULL, 0, &changed);
                } else if (kind == 1) {
                    mutant = splice(text, length, at, 0, text + at, bytes, &changed);
                } else if (kind == 2) {
                    mutant = splice(text, length, at, 0, "x", 1, &changed);
                } else {
                    size_t value = at + strcspn(text + at, "=") + 1;
                    mutant = splice(text, length, value, 0, "?", 1, &changed);
                }
                weft_status status = parse(mutant, changed, &machine, &message);
                if (kind == 0 && (is_optional(spoiled))) {
                    assert_int_equal(status, WEFT_OK); /* a file may lack it */
                } else if (silent && kind < 2) {
                    assert_int_equal(status, WEFT_OK);
                    assert_memory_equal(&machine, &original, sizeof machine);
                } else {
                    assert_int_equal(status, WEFT_INVALID);
                    expect_located(message.text, lines + (kind == 1));
                    assert_true(is_zero(&machine));
                }
                free(mutant);
            }
        }
    }
}

/* Random bytes in random places never do more than fail. */
static void test_flips(void **state) {
    (void)state;
    uint64_t random = random_seed(1);
    int failed = 0;
    for (int round = 0; random_round(&random, &round, 20000); round++) {
        const weft_embedded *file = &weft_embedded_machines[(size_t)round % weft_embedded_machines_count];
        size_t length = file->length;
        char *text = splice(file->text, length, 0, 0, NULL, 0, &length);
        for (int flip = 0; flip <= round % 3; flip++) {
            const uint64_t bits = random_bits(&random);
            text[(bits >> 16) % length] = (char)(bits & 255);
        }
        weft_machine machine = WEFT_MACHINE_INIT;
        weft_message message;
        if (parse(text, length, &machine, &message) != WEFT_OK) {
            failed++;
            expect_located(message.text, 4096);
            assert_true(is_zero(&machine));
        } else {
            assert_int_equal(machine.workers % machine.domains, 0);
            assert_int_equal(machine.l2_bytes % machine.l2_line, 0);
        }
        free(text);
    }
    assert_true(failed >= random_rounds(20000) / 2); /* others change a comment, or one digit for another */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_text),   cmocka_unit_test(test_links),       cmocka_unit_test(test_line_ends),
        cmocka_unit_test(test_built_in),     cmocka_unit_test(test_form_errors), cmocka_unit_test(test_value_errors),
        cmocka_unit_test(test_cross_errors), cmocka_unit_test(test_one_domain),  cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_not_found),    cmocka_unit_test(test_any_case),    cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_gpcs),         cmocka_unit_test(test_files),       cmocka_unit_test(test_values_round_trip),
        cmocka_unit_test(test_host),         cmocka_unit_test(test_locale),      cmocka_unit_test(test_mutations),
        cmocka_unit_test(test_flips),
    };
    return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
