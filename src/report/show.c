/* SPDX-License-Identifier: Apache-2.0 */
/* A view in any format. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/names.h"
#include "base/status.h"
#include "report/page.h"
#include "report/svg.h"
#include "report/text.h"

/* The page, or the same as a line of JSON. */
static weft_status write_page(const weft_view *view, weft_view_format format, const char *path, const char *command,
                              weft_message *message) {
    if (command && !weft_is_text(command)) {
        return weft_fail(message, WEFT_INVALID, "the command of a view is not UTF-8");
    }
    json_t *data = weft_view_json(view, command ? command : "");
    char *text = weft_json_text(data, JSON_COMPACT | JSON_REAL_PRECISION(17));
    weft_status status = text ? WEFT_OK : weft_fail(message, WEFT_NO_MEMORY, "out of memory");
    if (status == WEFT_OK && format == WEFT_VIEW_PAGE) {
        status = weft_page_fill("view.html", text, path, message);
    } else if (status == WEFT_OK) {
        const size_t length = strlen(text);
        text[length] = '\n'; /* in place of the final null */
        status = weft_file_write(path, text, length + 1, message);
    }
    free(text);
    json_decref(data);
    return status;
}

weft_status weft_view_write(const weft_view *view, weft_view_format format, const char *path, const char *command,
                            weft_message *message) {
    switch (format) {
    case WEFT_VIEW_PAGE:
    case WEFT_VIEW_JSON:
        return write_page(view, format, path, command, message);
    case WEFT_VIEW_SVG:
        return weft_svg_write(view, path, message);
    case WEFT_VIEW_TEXT:
        return weft_text_write(view, path, message);
    }
    return weft_fail(message, WEFT_INVALID, "format %d is not a weft_view_format", (int)format);
}

weft_status weft_view_play(const weft_view *view, weft_message *message) {
    const weft_status status = weft_text_play(view);
    return status ? weft_fail(message, status, "out of memory") : WEFT_OK;
}
