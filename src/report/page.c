/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/embedded.h"
#include "base/file.h"
#include "base/json.h"
#include "base/status.h"
#include "report/bytes.h"

static const char *page_file(const char *name, size_t *length) {
    for (size_t i = 0; i < weft_embedded_page_count; i++) {
        if (strcmp(weft_embedded_page[i].name, name) == 0) {
            *length = weft_embedded_page[i].length;
            return weft_embedded_page[i].text;
        }
    }
    *length = 0;
    return NULL;
}

const char *weft_recorded(size_t number, const char **name) {
    for (size_t i = 0; i < weft_embedded_page_count; i++) {
        const char *ending = strrchr(weft_embedded_page[i].name, '.');
        if (ending && strcmp(ending, ".csv") == 0 && number-- == 0) {
            *name = weft_embedded_page[i].name;
            return weft_embedded_page[i].text;
        }
    }
    return NULL;
}

/* JSON inside a script element: a '<' stands only inside strings, and written as an escape it can end nothing. */
static void put_json(weft_bytes *page, const char *text) {
    for (const char *from = text; *from;) {
        const size_t plain = strcspn(from, "<");
        weft_bytes_put(page, from, plain);
        from += plain;
        if (*from == '<') {
            weft_bytes_put(page, "\\u003c", 6);
            from++;
        }
    }
}

/* Copies the template; a line "@name" stands for a file, "@data" for the data. */
static void put_template(weft_bytes *page, const char *template, const char *json) {
    for (const char *line = template; *line;) {
        const size_t length = strcspn(line, "\n");
        if (line[0] == '@') {
            char name[64];
            size_t size;
            snprintf(name, sizeof name, "%.*s", (int)(length - 1), line + 1);
            const char *text = page_file(name, &size);
            if (strcmp(name, "data") == 0) {
                put_json(page, json);
            } else if (text) {
                weft_bytes_put(page, text, size);
            } else {
                page->failed = 1;
            }
        } else {
            weft_bytes_put(page, line, length);
        }
        weft_bytes_put(page, "\n", 1);
        line += length + (line[length] == '\n');
    }
}

weft_status weft_page_fill(const char *name, const char *json, const char *path, weft_message *message) {
    weft_bytes page = {0};
    size_t unused;
    const char *template = page_file(name, &unused);
    page.failed = !template;
    if (!page.failed) {
        put_template(&page, template, json);
    }
    const weft_status status = page.failed ? weft_fail(message, WEFT_NO_MEMORY, "no memory for the page")
                                           : weft_file_write(path, page.data, page.count, message);
    weft_bytes_release(&page);
    return status;
}

weft_status weft_page_write(const char *json, const char *path, weft_message *message) {
    static const struct { const char *kind, *page; } pages[] = {{"report", "report.html"}, {"ranks", "ranks.html"}};
    json_t *data = json ? weft_json_read(json, strlen(json), 0, NULL) : NULL;
    const char *kind = json_string_value(json_object_get(data, "kind")), *page = NULL;
    for (size_t i = 0; kind && i < sizeof pages / sizeof *pages; i++) {
        page = strcmp(pages[i].kind, kind) == 0 ? pages[i].page : page;
    }
    json_decref(data);
    return page ? weft_page_fill(page, json, path, message)
                : weft_fail(message, WEFT_INVALID, "json is not an object of kind \"report\" or \"ranks\"");
}
