/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * Operations, their fields, orders, sweeps, dispatches and dtypes by number and by name, for programs that talk to people.
 */
#ifndef WEFT_NAMES_H
#define WEFT_NAMES_H

#include "order.h"
#include "problem.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_field_type {
    WEFT_FIELD_INTEGER = 1, /**< int64_t */
    WEFT_FIELD_REAL = 2,    /**< double */
    WEFT_FIELD_CHOICE = 3,  /**< an enumeration, with a name for each value */
    WEFT_FIELD_FLAG = 4,    /**< an enumeration: given, it has `value` */
    WEFT_FIELD_PAIR = 5,    /**< int64_t[2]; -1 is allowed */
    WEFT_FIELD_BIT = 6,     /**< an int32_t that is a set of bits: given, it has the bit `value`, too */
    WEFT_FIELD_STARTS = 7,  /**< const int32_t *: where parts begin, and behind them where the last ends. People give
                               lengths,  each at least 0, and whoever reads them keeps the array */
    WEFT_FIELD_COUNTS = 8   /**< const int32_t *: the lengths themselves; likewise */
} weft_field_type;

/** A field of a problem, for programs that read problems from people. */
typedef struct weft_field {
    const char *name, *text; /**< "kv_heads", "key and value heads, dividing heads (as many as heads)" */
    weft_field_type type;
    size_t offset;                        /**< in the problem's struct */
    int32_t value;                        /**< of a flag or a bit. Others, 1: told only where it is not the usual one */
    const char *(*choice)(int32_t value); /**< the name of a choice; null past the last */
    double usual;                         /**< what to take when nobody gives it */
    const char *follows;                  /**< null, or the field whose value it takes when nobody gives it */
} weft_field;

/** An operation: a row of a table. */
typedef struct weft_operation_info {
    int32_t operation;              /**< a weft_operation */
    const char *name, *text;        /**< "attention-backward", a line of explanation */
    size_t problem_size, data_size; /**< of its structs */
    weft_grid_kind grid;            /**< which orders apply to its grid of tiles */
    const weft_field *fields;       /**< of the problem, `field_count` of them */
    size_t field_count;
} weft_operation_info;

/** Operations by number, from 1; null when there is no such number. */
WEFT_API const weft_operation_info *weft_operation_describe(int32_t operation);

/** An operation's number by its name; 0 when there is none. */
WEFT_API int32_t weft_operation_find(const char *name);

/** Fills a problem's struct, of problem_size bytes, with its operation's defaults. Returns 0 for an unknown operation. */
WEFT_API int weft_problem_init(void *problem, int32_t operation);

/** A row of orders.def. */
typedef struct weft_order_info {
    const char *name, *text;
    weft_grid_kind grid; /**< that it applies to */
    weft_parameter parameter;
} weft_order_info;

/** A name and a line of explanation. */
typedef struct weft_name {
    const char *name, *text;
} weft_name;

/** Rows by number, from 1 on; null when there is no such number. */
WEFT_API const weft_order_info *weft_order_describe(int32_t kind);
WEFT_API const weft_name *weft_sweep_describe(int32_t sweep);
WEFT_API const weft_name *weft_dispatch_describe(int32_t dispatch);
WEFT_API const char *weft_dtype_name(weft_dtype dtype);

/** Numbers by name; 0 when there is none, of a dtype -1. */
WEFT_API int32_t weft_order_find(const char *name);
WEFT_API int32_t weft_sweep_find(const char *name);
WEFT_API int32_t weft_dispatch_find(const char *name);
WEFT_API int32_t weft_dtype_find(const char *name);

#ifdef __cplusplus
}
#endif

#endif
