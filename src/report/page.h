/* SPDX-License-Identifier: Apache-2.0 */
/* One self-contained HTML file: data as JSON, and everything that shows it. */
#ifndef WEFT_REPORT_PAGE_H
#define WEFT_REPORT_PAGE_H

#include <weft/report.h>

/* Writes a page: the template of that name, one of the files that travel inside the library (see base/embedded.h), with
 * the data in it. */
weft_status weft_page_fill(const char *name, const char *json, const char *path, weft_message *message);

#endif
