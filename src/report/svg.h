/* SPDX-License-Identifier: Apache-2.0 */
/* A still of a view, for papers and for the README. */
#ifndef WEFT_REPORT_SVG_H
#define WEFT_REPORT_SVG_H

#include "report/view.h"

/* Writes the picture to a file, or with a null path to standard output. */
weft_status weft_svg_write(const weft_view *view, const char *path, weft_message *message);

#endif
