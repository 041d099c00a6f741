/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of orders.def, by number, which begins at 1, and by name. */
#include <weft/weft.h>

#include "base/names.h"

static const weft_order_info orders[] = {
#define WEFT_ORDER(ID, function, name, GRID, PARAMETER, text) {name, text, WEFT_GRID_##GRID, WEFT_PARAMETER_##PARAMETER},
#include <weft/orders.def>
};

static const weft_name sweeps[] = {
#define WEFT_SWEEP(ID, name, text) {name, text},
#include <weft/orders.def>
};

static const weft_name dispatches[] = {
#define WEFT_DISPATCH(ID, name, text) {name, text},
#include <weft/orders.def>
};

static const char *const dtypes[] = {[WEFT_FP32] = "fp32", [WEFT_FP16] = "fp16", [WEFT_BF16] = "bf16", [WEFT_FP8] = "fp8"};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

const weft_order_info *weft_order_describe(int32_t kind) {
    return kind > 0 && kind <= WEFT_ORDER_KINDS ? &orders[kind - 1] : NULL;
}

const weft_name *weft_sweep_describe(int32_t sweep) {
    return sweep > 0 && sweep <= WEFT_SWEEPS ? &sweeps[sweep - 1] : NULL;
}

const weft_name *weft_dispatch_describe(int32_t dispatch) {
    return dispatch > 0 && dispatch <= WEFT_DISPATCHES ? &dispatches[dispatch - 1] : NULL;
}

const char *weft_dtype_name(weft_dtype dtype) {
    return (unsigned)dtype < DTYPES ? dtypes[dtype] : NULL;
}

int32_t weft_order_find(const char *name) {
    for (int32_t i = 1; i <= WEFT_ORDER_KINDS; i++) {
        if (name && weft_names_agree(name, orders[i - 1].name)) {
            return i;
        }
    }
    return 0;
}

static int32_t find(const weft_name *rows, int32_t count, const char *name) {
    for (int32_t i = 1; i <= count; i++) {
        if (name && weft_names_agree(name, rows[i - 1].name)) {
            return i;
        }
    }
    return 0;
}

int32_t weft_sweep_find(const char *name) {
    return find(sweeps, WEFT_SWEEPS, name);
}

int32_t weft_dispatch_find(const char *name) {
    return find(dispatches, WEFT_DISPATCHES, name);
}

int32_t weft_dtype_find(const char *name) {
    for (int32_t i = 0; i < DTYPES; i++) {
        if (name && weft_names_agree(name, dtypes[i])) {
            return i;
        }
    }
    return -1;
}
