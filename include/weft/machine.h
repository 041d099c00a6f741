/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Machines: what a chip has, each number with where it comes from.
 */
#ifndef WEFT_MACHINE_H
#define WEFT_MACHINE_H

#include "weft.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What happens to a line that a domain reads. */
typedef enum weft_home {
    WEFT_HOME_NONE = 0,    /**< one L2 for all, or none to speak of */
    WEFT_HOME_SPLIT = 1,   /**< each line has a home domain; a domain that reads another's line keeps a copy */
    WEFT_HOME_PRIVATE = 2, /**< each domain caches for itself; misses go to the last-level cache */
} weft_home;

typedef enum weft_replacement { WEFT_REPLACEMENT_LRU = 0, WEFT_REPLACEMENT_RANDOM = 1 } weft_replacement;

/** How a write is counted. */
typedef enum weft_write { WEFT_WRITE_HIT = 0, WEFT_WRITE_MISS = 1 } weft_write;

/** How the hardware hands CTAs to domains. */
typedef enum weft_handout {
    WEFT_HANDOUT_ANY = 0,        /**< to whichever worker is free, no domain in mind */
    WEFT_HANDOUT_ROUND_ROBIN = 1 /**< CTA i goes to domain i mod domains */
} weft_handout;

/** What joins the GPUs of a node. */
typedef enum weft_topology {
    WEFT_TOPOLOGY_SWITCH = 0, /**< each GPU has a link to a switch: NVLink with NVSwitch, PCIe */
    WEFT_TOPOLOGY_FULL = 1,   /**< a link between every two GPUs: Infinity Fabric */
    WEFT_TOPOLOGY_RING = 2,   /**< links between neighbours of a circle */
    WEFT_TOPOLOGY_MESH = 3    /**< links between neighbours of a mesh, which is as square as may be */
} weft_topology;

/** A machine. The fields are those of src/machine/keys.def, where each has its unit. */
struct weft_machine {
    size_t struct_size; /**< set by WEFT_MACHINE_INIT */
    char name[32];
    char title[96];
    int64_t workers;            /**< SMs, CUs or cores */
    int64_t domains;            /**< sets of workers that share one L2 */
    int64_t handout;            /**< a weft_handout */
    int64_t handout_run;        /**< CTAs in a row that start on one domain; 1: domains take turns */
    double clock;               /**< Hz */
    int64_t shared_bytes;       /**< software-managed memory of a worker; for a CPU, its first-level data cache */
    int64_t l2_bytes;           /**< of one domain */
    int64_t l2_line, l2_sector; /**< bytes */
    int64_t l2_ways;            /**< 0: fully associative */
    int64_t l2_replacement;     /**< a weft_replacement */
    int64_t l2_home;            /**< a weft_home */
    double l2_usable;           /**< share of the capacity that a kernel's data can have */
    double l2_slack;            /**< share of the oldest lines from which the victim is drawn; 0: strictly the oldest */
    double l2_crowded;          /**< share of the lines in sets that overflow before the whole does */
    int64_t l2_write;           /**< a weft_write */
    double l2_bandwidth;        /**< bytes per second, the whole chip */
    int64_t llc_bytes;          /**< last-level cache behind the L2s; 0: none */
    double llc_bandwidth;       /**< bytes per second; 0 where there is none */
    double dram_bandwidth;      /**< bytes per second */
    double near_latency, far_latency, dram_latency; /**< cycles; far is 0 where nothing is far */
    double matrix_fp32, matrix_fp16, matrix_bf16;   /**< FLOP per second, dense */
    double exp_rate;                                /**< exponentials per second, the whole chip */
    int64_t gpcs;                                   /**< parts of the chip that have equal paths to the L2; 0: not known */
    int64_t gpc_workers;                            /**< workers of the largest of them */
    char attention_profile[32], backward_profile[32], gemm_profile[32]; /**< of its usual kernels; "": "generic" */
    double matrix_fp8;                                                  /**< FLOP per second, dense; 0: not known */
    char aliases[96];                                                   /**< other names, separated by commas; "": none */
    int64_t l2_queue;      /**< bytes that may wait for DRAM before hits wait behind them; 0: hits never do */
    double l2_waiting;     /**< bytes per second, of answers to requests for a sector in flight; 0: at once */
    double launch;         /**< seconds that a kernel on a stream takes beside what its profile says; 0: nothing */
    int64_t link_topology; /**< a weft_topology: what joins the GPUs of a node */
    int64_t link_gpus;     /**< of a node; 0: what joins GPUs is not known */
    double link_bandwidth, link_latency; /**< bytes per second in each direction, of a GPU at a switch, else of a link;
                                              seconds of a message for each link */
    double network_bandwidth, network_latency; /**< the same between nodes, for each GPU; 0: there is one node */
};

/* clang-format off */
#define WEFT_MACHINE_INIT                                                                                                  \
    {sizeof(weft_machine), "", "", 0, 0, 0, 0, 0.0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0, 0.0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, \
     0.0, 0.0, 0.0, 0.0, 0, 0, "", "", "", 0.0, "", 0, 0.0, 0.0, 0, 0, 0.0, 0.0, 0.0, 0.0}
/* clang-format on */

/** Finds a machine: one of the built-in ones by name or alias, in upper or lower case, with or without hyphens and
 * underscores ("RTX5090" is rtx-5090), or a file by path (anything with a '/' or ending in ".ini").
 *
 * WEFT_NOT_FOUND when there is neither; WEFT_INVALID, with file and line, when a file is not right.
 */
WEFT_API weft_status weft_machine_load(weft_machine *machine, const char *name_or_path, weft_message *message);

/** Reads a machine from text, as a machine file holds it; `label` stands for the file's name in messages. */
WEFT_API weft_status weft_machine_parse(weft_machine *machine, const char *text, size_t length, const char *label,
                                        weft_message *message);

/** Describes the host's CPU as a machine: cores as workers, its largest shared cache as the L2. */
WEFT_API weft_status weft_machine_host(weft_machine *machine, weft_message *message);

/** Describes a live GPU as a machine: what its driver tells (SMs, clock, L2, shared memory), and for the rest the built-in
 * machine of its name, or of its generation. `weft machines probe` measures more.
 *
 * WEFT_NOT_FOUND when there is no driver or no such GPU; the machine is then all zeros. */
WEFT_API weft_status weft_machine_gpu(weft_machine *machine, int32_t index, weft_message *message);

/** The machine that a plan is for. Valid as long as the plan. */
WEFT_API const weft_machine *weft_plan_machine(const weft_plan *plan);

/** Names of the built-in machines by number; null past the last. */
WEFT_API const char *weft_machine_name(size_t number);

/** One value of a machine or a profile as text, for listings. */
typedef struct weft_machine_value {
    size_t struct_size;                      /**< set by WEFT_MACHINE_VALUE_INIT */
    const char *section, *key, *unit, *text; /**< constants: the section, the key, the unit, what the key means */
    char value[96];
    char source[160]; /**< where the number comes from */
} weft_machine_value;

#define WEFT_MACHINE_VALUE_INIT                                                                                            \
    { sizeof(weft_machine_value), NULL, NULL, NULL, NULL, "", "" }

/** As weft_machine_load(), for the values with their sources. Fills at most `room` of them and sets *count to how many
 * there are; `machine` may be null. The first of the values has its struct_size set, which is that of all. */
WEFT_API weft_status weft_machine_values(const char *name_or_path, weft_machine *machine, weft_machine_value *values,
                                         size_t room, size_t *count, weft_message *message);

#ifdef __cplusplus
}
#endif

#endif
