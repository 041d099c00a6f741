/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a text is a document of XML: characters that may be there, elements that end where they have to, attributes in
 * quotes, and no '<' or '&' that is only a letter. */
#ifndef WEFT_TESTS_FUZZ_MARKUP_H
#define WEFT_TESTS_FUZZ_MARKUP_H

#include <ctype.h>
#include <string.h>

#include "base/names.h"

/* A reference to a character, which `at` is at the '&' of; null when it is none. */
static inline const char *markup_reference(const char *at) {
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strncmp(at, known[i], strlen(known[i])) == 0) {
            return at + strlen(known[i]);
        }
    }
    return NULL;
}

/* The inside of a tag up to its '>': a name, attributes, perhaps a '/' at the end. */
static inline const char *markup_tag(const char *at, int *is_empty) {
    at += strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-");
    for (;;) {
        at += strspn(at, " \n");
        *is_empty = *at == '/';
        at += *is_empty;
        if (*at == '>' || *is_empty) {
            return *at == '>' ? at + 1 : NULL;
        }
        const size_t name = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-");
        at += name;
        if (name == 0 || strncmp(at, "=\"", 2) != 0) {
            return NULL;
        }
        for (at += 2; *at != '"';) {
            at = *at == '&' ? markup_reference(at) : *at == '<' || *at == '\0' ? NULL : at + 1;
            if (!at) {
                return NULL;
            }
        }
        at++;
    }
}

static inline int markup_is_right(const char *text) {
    enum { DEEPEST = 32 };
    const char *open[DEEPEST];
    size_t length[DEEPEST], depth = 0;
    if (!weft_is_text(text)) {
        return 0;
    }
    for (const char *at = text; *at;) {
        if ((unsigned char)*at < ' ' && !strchr("\t\n\r", *at)) {
            return 0;
        }
        if (*at == '&') {
            at = markup_reference(at);
        } else if (strncmp(at, "]]>", 3) == 0) {
            return 0;
        } else if (strncmp(at, "</", 2) == 0) {
            const size_t name = strcspn(at + 2, ">");
            if (depth == 0 || length[--depth] != name || strncmp(open[depth], at + 2, name) != 0) {
                return 0;
            }
            at += 2 + name + 1;
        } else if (*at == '<') {
            int is_empty = 0;
            if (depth == DEEPEST || !isalpha((unsigned char)at[1])) {
                return 0;
            }
            open[depth] = at + 1;
            length[depth] = strspn(at + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789");
            at = markup_tag(at + 1, &is_empty);
            depth += !is_empty;
        } else {
            at++;
        }
        if (!at) {
            return 0;
        }
    }
    return depth == 0;
}

#endif
