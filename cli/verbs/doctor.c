/* SPDX-License-Identifier: Apache-2.0 */
/* weft doctor: what this build, this CPU, this GPU and its driver can do, and why not. It tries what it tells of. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include <weft/bench.h>
#include <weft/report.h>
#include <weft/study.h>
#include <weft/tune.h>

#include "base/environment.h"
#include "base/file.h"
#include "base/json.h"
#include "cli.h"
#include "verbs/doctor.h"

/* ---- the build ---- */

/* One row is enough to see that the store can be read. */
static int stop_at_row(void *user, const weft_tuning *row) {
    (void)user;
    (void)row;
    return 1;
}

static void examine_build(doctor *d) {
    const int32_t cuda = weft_cuda_version();
    weft_message message = {""};
    doctor_begin(d, "this build");
    doctor_tell(d, WORKS, "version", "", "weft %s, CPU kernels %s", weft_version(), weft_build(WEFT_DEVICE_CPU));
    if (cuda) {
        doctor_tell(d, WORKS, "CUDA kernels", "", "compiled by CUDA %d.%d", (int)cuda / 1000, (int)cuda % 1000 / 10);
    } else {
        doctor_tell(d, NO, "CUDA kernels",
                    "build with -DWEFT_CUDA=ON where nvcc is; the CPU and the simulator need none of it",
                    "this build has none");
    }
#ifdef _OPENMP
    doctor_tell(d, WORKS, "threads", "", "%d (OMP_NUM_THREADS sets another number)", omp_get_max_threads());
#else
    doctor_tell(d, NO, "threads", "build with a compiler that has OpenMP",
                "CPU kernels run in one: this build has no OpenMP");
#endif
    char path[4096];
    const size_t length = weft_tunings_path(path, sizeof path);
    const weft_status listed = weft_tunings_list(stop_at_row, NULL, &message);
    if (listed == WEFT_UNSUPPORTED) {
        doctor_tell(d, NO, "tuning store", "build where libsqlite3-dev is installed", "%s", message.text);
    } else if (length == 0 || length >= sizeof path) {
        doctor_tell(d, NO, "tuning store", "name a file in WEFT_TUNING_DB", "there is no place for it");
    } else if (access(path, F_OK) != 0 && !weft_environment(WEFT_VARIABLE_TUNING_DB)) {
        doctor_tell(d, WORKS, "tuning store", "", "%s, which the first 'weft tune' makes", path);
    } else if (listed || weft_file_check(path, &message)) {
        doctor_tell(d, NO, "tuning store", "name another file in WEFT_TUNING_DB, or put right who may write there", "%s",
                    message.text);
    } else {
        doctor_tell(d, WORKS, "tuning store", "", "%s", path);
    }
}

/* ---- kernels ---- */

/* Which kernel a small problem of an operation gets on a device. Null, with a message, when it gets none; *failed becomes 1
 * when the system, and not the device, is the reason. */
static weft_plan *plan_small(int32_t operation, const char *dtype, const weft_device *device, int *failed,
                             weft_message *message) {
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    settings s = settings_none();
    weft_plan *plan = NULL;
    problem p;
    s.operation = operation;
    settings_give(&s, "dtype", (option_value){.code = weft_dtype_find(dtype)});
    options.device = device;
    if (problem_of(&s, &p, message)) {
        const weft_status status = weft_plan_create(&plan, &p, &options, message);
        *failed |= status == WEFT_IO || status == WEFT_NO_MEMORY;
    }
    return plan;
}

/* A line for each operation: the kernels of its dtypes. */
static void examine_kernels(doctor *d, const weft_device *device, const char *advice) {
    static const char *const dtypes[] = {"fp32", "fp16", "bf16"};
    for (int32_t i = 1; weft_operation_describe(i); i++) {
        char text[512] = "";
        weft_message message = {""};
        size_t used = 0;
        int failed = 0;
        for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
            weft_message why = {""};
            weft_plan *plan = plan_small(i, dtypes[k], device, &failed, &why);
            message = plan ? message : why;
            if (plan && used < sizeof text) {
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%s by %s", used ? ", " : "", dtypes[k],
                                         weft_plan_kernel(plan));
            }
            weft_plan_destroy(plan);
        }
        const int works = used > 0 && !failed;
        doctor_tell(d, works ? WORKS : NO, weft_operation_describe(i)->name, advice, "%s", works ? text : message.text);
    }
}

static void examine_cpu(doctor *d) {
    weft_machine host = WEFT_MACHINE_INIT;
    weft_message message = {""};
    char has[256] = "", lacks[256] = "";
    int32_t present;
    const char *name;
    doctor_begin(d, "this CPU");
    if (weft_machine_host(&host, &message)) {
        doctor_tell(d, NO, "machine", "name a machine with --machine", "%s", message.text);
    } else {
        doctor_tell(d, WORKS, "machine", "", "%s, %lld x %s of L2, last-level cache %s", host.title,
                    (long long)host.domains, weft_memory_text((double)host.l2_bytes).text,
                    host.llc_bytes > 0 ? weft_memory_text((double)host.llc_bytes).text : "none");
    }
    for (size_t i = 0; (name = weft_cpu_feature(i, &present)); i++) {
        char *list = present ? has : lacks;
        const size_t used = strlen(list);
        snprintf(list + used, sizeof has - used, "%s%s", used ? ", " : "", name);
    }
    doctor_tell(d, has[0] ? WORKS : NOTE, "features", "", "%s", has[0] ? has : "none that kernels here are compiled for");
    if (lacks[0]) {
        doctor_tell(d, NOTE, "not here", "", "%s: kernels for these are not used", lacks);
    }
    const weft_device device = WEFT_DEVICE_INIT;
    examine_kernels(d, &device, "");
}

/* ---- GPUs ---- */

/* Whether the hardware counters of a small product can be read: it is run, and they are. */
static void examine_counters(doctor *d, weft_study *study, const weft_device *device) {
    static const weft_counter wanted[] = {WEFT_COUNTER_L2_SECTORS};
    static const char *const advice = "let others than root read counters: the driver's option "
                                      "NVreg_RestrictProfilingToAdminUsers=0; in a container also "
                                      "--cap-add SYS_ADMIN; a GPU with MIG has none";
    weft_bench_options options = WEFT_BENCH_INIT;
    weft_bench *bench = NULL;
    weft_message message = {"no plan"};
    double value = 0;
    int failed = 0;
    weft_plan *plan = plan_small(WEFT_GEMM, "bf16", device, &failed, &message);
    weft_status status = plan ? weft_bench_open(&bench, plan, &options, &message) : WEFT_FAILED;
    status = status ? status : weft_study_count(study, bench, plan, wanted, 1, &value, &message);
    weft_bench_close(bench);
    weft_plan_destroy(plan);
    if (status) {
        doctor_tell(d, NO, "counters (CUPTI)", advice, "%s", message.text);
    } else {
        doctor_tell(d, WORKS, "counters (CUPTI)", "", "'weft run --counters' can read them");
    }
    if (weft_study_check_energy(study, &message)) {
        doctor_tell(d, NO, "energy (NVML)", "install the driver's libnvidia-ml.so.1; GPUs before Volta do not tell", "%s",
                    message.text);
    } else {
        doctor_tell(d, WORKS, "energy (NVML)", "", "'weft run --energy' can measure it");
    }
}

/* Returns 0 when there is no such GPU. */
static int examine_gpu(doctor *d, int32_t index) {
    weft_study *study = NULL;
    weft_message message = {""};
    weft_device device = WEFT_DEVICE_INIT;
    const weft_status status = weft_study_open(&study, index, &message);
    if (status && index > 0) {
        return 0;
    }
    if (status) {
        const char *advice =
            status == WEFT_NOT_FOUND     ? "install NVIDIA's driver, or name its libcuda.so.1 in WEFT_CUDA_DRIVER; "
                                           "the CPU and the simulator need no GPU"
            : status == WEFT_UNSUPPORTED ? "put a newer driver on this machine, or take a build of weft for it"
                                         : "nvidia-smi and the system's log say more";
        doctor_tell(d, NO, "driver and GPU", advice, "%s", message.text);
        return 0;
    }
    doctor_tell(d, WORKS, "driver and GPU", "", "GPU %d, %s", (int)index, weft_study_name(study));
    device.kind = WEFT_DEVICE_CUDA;
    device.index = index;
    examine_kernels(d, &device,
                    "weft needs a GPU of compute capability 8.0 or later, and kernels that were compiled for it");
    examine_counters(d, study, &device);
    weft_study_close(study);
    return 1;
}

static void examine_gpus(doctor *d) {
    enum { MOST = 64 };
    doctor_begin(d, "GPUs");
    for (int32_t i = 0; i < MOST && examine_gpu(d, i); i++) {
    }
}

int cmd_doctor(const settings *s, const char *const *words, size_t count) {
    (void)words;
    (void)count;
    doctor d = {.json = s->json, .list = json_array()};
    examine_build(&d);
    examine_cpu(&d);
    doctor_examine_others(&d);
    examine_gpus(&d);
    if (s->json) {
        return print_json(json_pack("{s:s, s:o}", "version", weft_version(), "findings", d.list));
    }
    json_decref(d.list);
    return EXIT_OK;
}
