/* SPDX-License-Identifier: Apache-2.0 */
/* A study's rows as text. */
#ifndef WEFT_CLI_STUDY_PRINT_H
#define WEFT_CLI_STUDY_PRINT_H

#include "studies/judge.h"

/* Rows under their title. On a GPU a column has what was measured, and the title the seconds that it took. Returns an
 * exit code, with the message printed. */
int study_print(const char *title, const study_row *rows, size_t count, int measured, double seconds);

/* How many rows have a verdict. */
size_t study_count(const study_row *rows, size_t count, study_verdict verdict);

/* The tolerances, each with its reason. */
void study_print_tolerances(void);

#endif
