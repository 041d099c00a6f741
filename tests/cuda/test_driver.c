/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and starting the CUDA driver, loading kernels: what can go wrong, and many threads at once. */
#include "fake_images.h"

#include <pthread.h>
#include <string.h>

#include "cuda/driver/driver.h"

static void refused(weft_status expected, const char *text) {
    const weft_cuda_driver *driver;
    weft_message message = {""};
    assert_int_equal(weft_cuda_driver_get(&driver, &message), expected);
    assert_null(driver);
    assert_string_equal(message.text, text);
    assert_int_equal(weft_cuda_driver_get(&driver, NULL), expected); /* a message is not needed */
}

/* These come first: once a driver is loaded, it stays. */
static void absent(void **state) {
    (void)state;
    const weft_cuda_driver *driver;
    weft_message message = {""};
    setenv("WEFT_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
    assert_int_equal(weft_cuda_driver_get(&driver, &message), WEFT_NOT_FOUND);
    assert_non_null(strstr(message.text, "no CUDA driver: /nowhere/libcuda.so.1"));
    setenv("WEFT_CUDA_DRIVER", "libm.so.6", 1);
    refused(WEFT_UNSUPPORTED, "the CUDA driver has no cuInit: it is too old, or not a CUDA driver");
}

static void no_gpu(void **state) {
    (void)state;
    script("init=100");
    refused(WEFT_NOT_FOUND, "no GPU: the CUDA driver is here and finds no device");
    script("devices=0");
    refused(WEFT_NOT_FOUND, "no GPU: the CUDA driver is here and finds no device");
    script("init=34");
    refused(WEFT_NOT_FOUND, "no CUDA driver: the libcuda found here is a toolkit's stub");
    script("init=999");
    refused(WEFT_FAILED, "the CUDA driver does not start: as scripted (CUDA_ERROR_SCRIPTED)");
}

static void too_old(void **state) {
    (void)state;
    script("version=11040");
    refused(WEFT_UNSUPPORTED, "the CUDA driver is too old: it is for CUDA 11.4, and weft needs one for 13.0 or newer");
    script("version=12080");
    refused(WEFT_UNSUPPORTED, "the CUDA driver is too old: it is for CUDA 12.8, and weft needs one for 13.0 or newer");
}

enum { THREADS = 12 };

typedef struct seen {
    pthread_barrier_t *start;
    const weft_cuda_driver *driver;
    void *function;
    weft_status status;
} seen;

static void *load(void *argument) {
    seen *s = argument;
    void *context, *popped;
    pthread_barrier_wait(s->start);
    s->status = weft_cuda_driver_get(&s->driver, NULL);
    if (s->status == WEFT_OK) {
        s->driver->primary_retain(&context, 40);
        s->driver->context_push(context);
        s->status =
            weft_cuda_function_get(s->driver, "study_bf16_d64", "attention_bf16_d64_64x64__study_fast", &s->function, NULL);
        s->driver->context_pop(&popped);
        s->driver->primary_release(40);
    }
    return NULL;
}

/* Threads that ask for the first kernel of an image at the same time get the same one, loaded once. */
static void many_threads(void **state) {
    (void)state;
    pthread_barrier_t start;
    pthread_t threads[THREADS];
    seen all[THREADS];
    memset(all, 0, sizeof all);
    script(NULL);
    assert_int_equal(pthread_barrier_init(&start, NULL, THREADS), 0);
    for (int i = 0; i < THREADS; i++) {
        all[i].start = &start;
        assert_int_equal(pthread_create(&threads[i], NULL, load, &all[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(all[i].status, WEFT_OK);
        assert_non_null(all[i].function);
        assert_ptr_equal(all[i].driver, all[0].driver);
        assert_ptr_equal(all[i].function, all[0].function);
    }
    pthread_barrier_destroy(&start);
    assert_int_equal(counts()->library_loads, 1);
    assert_int_equal(counts()->contexts, 0);
    assert_int_equal(counts()->pushed, 0);
}

static void loading_fails(void **state) {
    (void)state;
    const weft_cuda_driver *driver;
    weft_message message = {""};
    void *function, *context;
    assert_int_equal(weft_cuda_driver_get(&driver, &message), WEFT_OK);
    assert_int_equal(driver->release, 13000);
    driver->primary_retain(&context, 40);
    driver->context_push(context);
    static const struct {
        const char *script, *image, *text;
        weft_status status;
    } cases[] = {
        {NULL, "study_bf8_d64", "this build of weft has no CUDA kernels named study_bf8_d64", WEFT_UNSUPPORTED},
        {"load=209", "study_fp16_d64",
         "the kernels in study_fp16_d64 have no code for this GPU and driver: as scripted (CUDA_ERROR_NO_BINARY_FOR_GPU)",
         WEFT_FAILED},
        {"load=2", "study_fp16_d64", "the kernels cannot be loaded: out of memory (CUDA_ERROR_OUT_OF_MEMORY)",
         WEFT_NO_MEMORY},
        {"kernel=500", "study_fp16_d64", "the kernel k cannot be loaded: as scripted (CUDA_ERROR_SCRIPTED)", WEFT_FAILED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        script(cases[i].script);
        assert_int_equal(weft_cuda_function_get(driver, cases[i].image, "k", &function, &message), cases[i].status);
        assert_string_equal(message.text, cases[i].text);
    }
    /* A failure is not remembered. */
    script(NULL);
    assert_int_equal(weft_cuda_function_get(driver, "study_fp16_d64", "k", &function, &message), WEFT_OK);
    driver->context_pop(&context);
    driver->primary_release(40);
}

static void devices(void **state) {
    (void)state;
    const weft_cuda_driver *driver;
    weft_cuda_device device;
    weft_message message = {""};
    script(NULL);
    assert_int_equal(weft_cuda_driver_get(&driver, &message), WEFT_OK);
    assert_int_equal(weft_cuda_device_get(driver, 1, &device, &message), WEFT_NOT_FOUND);
    assert_string_equal(message.text, "no GPU 1: there is 1");
    assert_int_equal(weft_cuda_device_get(driver, -1, &device, &message), WEFT_NOT_FOUND);
    assert_int_equal(weft_cuda_device_get(driver, 0, &device, &message), WEFT_OK);
    assert_int_equal(device.capability, 90);
    assert_int_equal(device.multiprocessors, 12);
    assert_int_equal(device.memory_bus, 0); /* this driver does not tell, and that is no failure */
    const int asked = counts()->clock_questions;
    assert_int_equal(weft_cuda_device_get(driver, 0, &device, &message), WEFT_OK);
    assert_int_equal(device.clock, 1980000);
    assert_int_equal(counts()->clock_questions, asked); /* real ones take long to answer */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(absent),        cmocka_unit_test(no_gpu),
                                       cmocka_unit_test(too_old),       cmocka_unit_test(many_threads),
                                       cmocka_unit_test(loading_fails), cmocka_unit_test(devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
