/* SPDX-License-Identifier: Apache-2.0 */
/* What others bring, and weft loads or is loaded by. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/mpi.h>
#include <weft/nccl.h>
#include <weft/study.h>

#include "base/environment.h"
#include "cli.h"
#include "verbs/doctor.h"

enum { PATH = 4096, LINE = 512 };

/* ---- libraries ---- */

/* libweft_mpi: named, or beside the command or where it is installed, or where the system has it. */
static void *open_mpi(void) {
    static const char *const beside[] = {"/libweft_mpi.so", "/../lib/libweft_mpi.so", "/../lib64/libweft_mpi.so"};
    const char *named = weft_environment(WEFT_VARIABLE_MPI_LIBRARY);
    char here[PATH], path[PATH + 32];
    if (named) {
        return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    }
    const ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
    here[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(here, '/');
    void *library = NULL;
    for (size_t i = 0; slash && !library && i < sizeof beside / sizeof *beside; i++) {
        *slash = '\0';
        snprintf(path, sizeof path, "%s%s", here, beside[i]);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library ? library : dlopen("libweft_mpi.so", RTLD_NOW | RTLD_LOCAL);
}

static void examine_mpi(doctor *d) {
    static const char *const advice = "build weft where an MPI is (libopenmpi-dev), or name its libweft_mpi.so in "
                                      "WEFT_MPI_LIBRARY; ranks on threads and torch's groups need none";
    const char *(*version)(void) = NULL;
    void *library = open_mpi();
    if (!library) {
        const char *reason = dlerror();
        doctor_tell(d, NO, "MPI", advice, "no libweft_mpi: %.300s", reason ? reason : "it does not load");
        return;
    }
    void *symbol = dlsym(library, "weft_mpi_library_version");
    memcpy(&version, &symbol, sizeof version);
    char text[LINE] = "";
    if (version) {
        snprintf(text, sizeof text, "%.*s", (int)strcspn(version(), ",\n"), version());
    }
    doctor_tell(d, version ? WORKS : NO, "MPI", version ? "" : advice, "%s",
                version ? text : "libweft_mpi has no weft_mpi_library_version");
}

static void examine_libraries(doctor *d) {
    int32_t version = 0;
    weft_message message = {""};
    examine_mpi(d);
    if (weft_nccl_version(&version, &message)) {
        doctor_tell(d, NO, "NCCL",
                    "install libnccl2, or name its libnccl.so.2 in WEFT_NCCL_LIBRARY; it is for several GPUs", "%s",
                    message.text);
    } else {
        doctor_tell(d, WORKS, "NCCL", "", "%d.%d.%d", (int)version / 10000, (int)version / 100 % 100, (int)version % 100);
    }
    if (weft_study_find_nvml(&message)) {
        doctor_tell(d, NO, "NVML", "install NVIDIA's driver, or name its libnvidia-ml.so.1 in WEFT_NVML", "%s",
                    message.text);
    } else {
        doctor_tell(d, WORKS, "NVML", "", "there; each GPU below says whether it tells its energy");
    }
    if (weft_study_find_cupti(&version, &message)) {
        doctor_tell(d, NO, "CUPTI", "install CUDA's libcupti, 12.8 or later, or name libcupti.so in WEFT_CUPTI", "%s",
                    message.text);
    } else {
        doctor_tell(d, WORKS, "CUPTI", "", "version %d; each GPU below says whether its counters can be read",
                    (int)version);
    }
}

/* ---- Python ---- */

/* Prints its version, then of each package a line: "NAME yes|no TEXT". The package itself is imported, with its library;
 * importing others would take seconds. */
static const char script[] =
    "import importlib.metadata as m, importlib.util as u, sys\n"
    "sys.path[:] = [p for p in sys.path if p]\n"
    "print('%d.%d.%d, %s' % (*sys.version_info[:3], sys.executable))\n"
    "try:\n"
    "    import weft\n"
    "    print('weft yes', weft.__version__, 'from', weft.__path__[0])\n"
    "except BaseException as e:\n"
    "    print('weft no', ' '.join(str(e).split()) or type(e).__name__)\n"
    "def version(name):\n"
    "    try: return m.version(name)\n"
    "    except Exception: return 'of unknown version'\n"
    "for name in ('numpy', 'torch', 'jax', 'cupy', 'mpi4py'):\n"
    "    print(name, *(('yes', version(name)) if u.find_spec(name) else ('no', 'not installed')))\n";

/* A line of the script: a package. */
static void tell_package(doctor *d, const char *line) {
    char name[32] = "", word[8] = "";
    int at = 0;
    if (sscanf(line, "%31s %7s %n", name, word, &at) < 2) {
        return;
    }
    const char *text = line + at;
    const int is_there = strcmp(word, "yes") == 0, is_ours = strcmp(name, "weft") == 0;
    if (!is_ours) {
        doctor_tell(d, is_there ? WORKS : NOTE, name, "", "%s", text);
        return;
    }
    const char *ours = weft_version();
    const int is_same = strncmp(text, ours, strlen(ours)) == 0 && text[strlen(ours)] == ' ';
    doctor_tell(d, is_there && is_same ? WORKS : NO, "package weft",
                is_there && is_same ? "" : "'pip install .' where weft's source is, or a wheel of it, with this python3",
                "%s%s", text, is_there && !is_same ? ", which is not this command's version" : "");
}

static void examine_python(doctor *d) {
    char command[sizeof script + 64], line[LINE];
    snprintf(command, sizeof command, "python3 -c \"%s\" 2>/dev/null", script);
    FILE *pipe = popen(command, "r");
    int lines = 0;
    while (pipe && fgets(line, sizeof line, pipe)) {
        line[strcspn(line, "\n")] = '\0';
        if (lines++ == 0) {
            doctor_tell(d, WORKS, "Python", "", "%s", line);
        } else {
            tell_package(d, line);
        }
    }
    const int status = pipe ? pclose(pipe) : -1;
    if (lines == 0 || status != 0) {
        doctor_tell(d, NO, "Python", "install Python 3.9 or later; the command and the library need none",
                    "python3 is not on the PATH, or fails");
    }
}

void doctor_examine_others(doctor *d) {
    doctor_begin(d, "MPI, NCCL, NVIDIA's libraries, Python");
    examine_libraries(d);
    examine_python(d);
}
