/* SPDX-License-Identifier: Apache-2.0 */
/* A view in the terminal. */
#ifndef WEFT_REPORT_TEXT_H
#define WEFT_REPORT_TEXT_H

#include "report/view.h"

/* Plays the view on standard output, which must be a terminal. */
weft_status weft_text_play(const weft_view *view);

/* Writes it as it ends to a file, or with a null path to standard output. */
weft_status weft_text_write(const weft_view *view, const char *path, weft_message *message);

#endif
