/* cmocka, with the headers that it wants before it. */
#ifndef WEFT_TESTS_CMOCKA_ALL_H
#define WEFT_TESTS_CMOCKA_ALL_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#endif
