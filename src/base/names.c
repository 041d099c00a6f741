#include "base/names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

int weft_names_agree(const char *one, const char *other) {
    for (;; one++, other++) {
        one += strspn(one, "-_");
        other += strspn(other, "-_");
        if (tolower((unsigned char)*one) != tolower((unsigned char)*other)) {
            return 0;
        }
        if (!*one) {
            return 1;
        }
    }
}

int weft_names_list(const char *list, const char *name) {
    while (*list) {
        char item[96];
        const size_t length = strcspn(list, ", ");
        snprintf(item, sizeof item, "%.*s", (int)length, list);
        if (length > 0 && weft_names_agree(item, name)) {
            return 1;
        }
        list += length + strspn(list + length, ", ");
    }
    return 0;
}
