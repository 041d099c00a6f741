/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/tune_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { COLUMNS = 32, LINE = 4096 };

/* Cuts a line at its commas, in place, without the blanks around cells. Returns how many there are, COLUMNS + 1 when too
 * many. */
static size_t cut(char *line, char **cells) {
    size_t count = 0;
    char *rest = line;
    line[strcspn(line, "\r\n")] = '\0';
    while (rest) {
        char *cell = rest + strspn(rest, " \t");
        rest = strchr(rest, ',');
        if (rest) {
            *rest++ = '\0';
        }
        for (size_t length = strlen(cell); length > 0 && strchr(" \t", cell[length - 1]); length--) {
            cell[length - 1] = '\0';
        }
        if (count == COLUMNS) {
            return COLUMNS + 1;
        }
        cells[count++] = cell;
    }
    return count;
}

/* One line as the options it stands for. */
static int read_problem(char *const *names, char *const *cells, size_t count, settings *s, weft_message *message) {
    char flags[COLUMNS][64], *arguments[2 * COLUMNS];
    int32_t operation = s->operation;
    int given = 0;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], "subject") == 0) {
            operation = weft_operation_find(cells[i]);
            continue;
        }
        const option *o = option_find(names[i], strlen(names[i]));
        const int is_flag = o && o->type == OPTION_FLAG;
        if (cells[i][0] == '\0' || (is_flag && strcmp(cells[i], "0") == 0)) {
            continue;
        }
        if (is_flag && strcmp(cells[i], "1") != 0) {
            snprintf(message->text, sizeof message->text, "%.40s %.40s is not 0 or 1", names[i], cells[i]);
            return EXIT_USAGE;
        }
        if (o && o->type == OPTION_LENGTHS) {
            snprintf(message->text, sizeof message->text, "%.40s cannot be a column: a cell ends at a comma", names[i]);
            return EXIT_USAGE;
        }
        snprintf(flags[i], sizeof flags[i], "--%.60s", names[i]);
        arguments[given++] = flags[i];
        if (!is_flag) {
            arguments[given++] = cells[i];
        }
    }
    if (!operation) {
        snprintf(message->text, sizeof message->text, "the subject is not attention or gemm");
        return EXIT_USAGE;
    }
    size_t words;
    const int code = options_parse(s, SET_PROBLEM, operation_bits(operation), given, arguments, NULL, 0, &words, message);
    s->operation = operation_made(s, operation);
    return code;
}

static int add(settings **list, size_t *count, const settings *s) {
    settings *longer = realloc(*list, (*count + 1) * sizeof *longer);
    if (longer) {
        *list = longer;
        longer[(*count)++] = *s;
    }
    return longer != NULL;
}

int tune_file_read(const settings *s, const char *path, settings **list, size_t *count) {
    char line[LINE], header[LINE], *names[COLUMNS], *cells[COLUMNS];
    size_t columns = 0, number = 0;
    int code = EXIT_OK;
    *list = NULL;
    *count = 0;
    FILE *file = fopen(path, "re");
    if (!file) {
        return complain(EXIT_USAGE, "%s: %s", path, strerror(errno));
    }
    while (code == EXIT_OK && fgets(line, sizeof line, file)) {
        number++;
        if (line[0] == '#' || line[strspn(line, " \t\r\n")] == '\0') {
            continue;
        }
        if (strlen(line) == sizeof line - 1) {
            code = complain(EXIT_USAGE, "%s:%zu: the line is longer than %d letters", path, number, LINE - 2);
        } else if (columns == 0) {
            memcpy(header, line, sizeof header);
            columns = cut(header, names);
            code =
                columns > COLUMNS ? complain(EXIT_USAGE, "%s:%zu: more than %d columns", path, number, COLUMNS) : EXIT_OK;
        } else {
            weft_message message = {""};
            const size_t found = cut(line, cells);
            if (found != columns) {
                code = complain(EXIT_USAGE, "%s:%zu: %zu cells and not %zu", path, number, found, columns);
            } else if (!add(list, count, s)) {
                code = complain(EXIT_FAILED, "out of memory");
            } else if ((code = read_problem(names, cells, columns, &(*list)[*count - 1], &message))) {
                complain(code, "%s:%zu: %s", path, number, message.text);
            }
        }
    }
    if (code == EXIT_OK && ferror(file)) {
        code = complain(EXIT_USAGE, "%s: could not be read", path);
    } else if (code == EXIT_OK && *count == 0) {
        code = complain(EXIT_USAGE, "%s: no problems in it", path);
    }
    fclose(file);
    if (code) {
        free(*list);
        *list = NULL;
    }
    return code;
}
