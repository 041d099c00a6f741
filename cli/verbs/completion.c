/* SPDX-License-Identifier: Apache-2.0 */
/* weft completion bash|zsh|fish: completion scripts written from the tables. */
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "cli.h"
#include "help/help.h"
#include "studies/study.h"

/* ---- what the shells have in common ---- */

static int is_hidden(const verb *v) {
    return v->text[0] == '\0';
}

static void print_names(const char *(*name)(size_t number)) {
    for (size_t i = 0; name(i); i++) {
        printf("%s%s", i ? " " : "", name(i));
    }
}

/* The words before the options: those in capitals stand for a machine, a profile or a study. */
static void print_words(const verb *v) {
    if (strstr(v->words, "NAME")) {
        print_names(v->run == cmd_profiles ? weft_profile_name : weft_machine_name);
        return;
    }
    if (strstr(v->words, "STUDY")) {
        for (const study_info *info = study_table; info->name; info++) {
            if (info->run || v->run == cmd_reproduce) { /* a report has no GPU */
                printf("%s ", info->name);
            }
        }
        fputs("all", stdout);
        return;
    }
    const help_text words = help_expand(v->words);
    for (const char *c = words.text; *c; c++) {
        if (!strchr("[]", *c)) {
            putchar(*c == '|' ? ' ' : *c);
        }
    }
}

static void print_verbs(void) {
    for (const verb *v = verb_table; v->name; v++) {
        if (!is_hidden(v)) {
            printf("%s ", v->name);
        }
    }
}

static int takes_file(const option *o) {
    return strstr(o->argument, "FILE") != NULL;
}

/* The names that an option's value can be. */
static void print_values(const option *o) {
    if (o->type == OPTION_MACHINE) {
        print_names(weft_machine_name);
    } else if (strcmp(o->name, "profile") == 0) {
        print_names(weft_profile_name);
    }
    for (int32_t i = 0; o->type == OPTION_CHOICE && o->choice(i); i++) {
        printf("%s%s", i ? " " : "", o->choice(i));
    }
}

/* Options whose values can be completed: "--output", or with its letter "-o|--output". */
static void print_option(const option *o) {
    if (options_letter(o)) {
        printf("-%c|", options_letter(o));
    }
    printf("--%s", o->name);
}

/* A text between single quotes, with `escaped` letters behind a backslash. */
static void print_quoted(const char *text, const char *escaped) {
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", stdout);
        } else {
            printf("%s%c", strchr(escaped, *text) ? "\\" : "", *text);
        }
    }
}

/* ---- bash ---- */

static void print_bash(void) {
    const option *o;
    puts("# bash completion for weft; written by 'weft completion bash'\n_weft() {\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} list=\n"
         "    case $previous in");
    for (size_t i = 0; (o = option_at(i)); i++) {
        if (o->type == OPTION_CHOICE || takes_file(o)) {
            fputs("    ", stdout);
            print_option(o);
            fputs(takes_file(o) ? ") COMPREPLY=($(compgen -f -W '" : ") list='", stdout);
            print_values(o);
            puts(takes_file(o) ? "' -- \"$word\")); return ;;" : "' ;;");
        }
    }
    puts("    esac\n    if [[ -z $list ]]; then\n        case ${COMP_WORDS[1]} in");
    for (const verb *v = verb_table; v->name; v++) {
        if (!is_hidden(v)) {
            printf("        %s) list='", v->name);
            print_words(v);
            for (size_t i = 0; (o = option_at(i)); i++) {
                if (o->sets & v->sets) {
                    printf(" --%s", o->name);
                    if (options_letter(o)) {
                        printf(" -%c", options_letter(o));
                    }
                }
            }
            puts("' ;;");
        }
    }
    fputs("        help) ((COMP_CWORD == 2)) && list='", stdout);
    print_verbs();
    fputs("' ;;\n        esac\n        ((COMP_CWORD == 1)) && list='", stdout);
    print_verbs();
    puts("help --help --version'\n    fi\n    COMPREPLY=($(compgen -W \"$list\" -- \"$word\"))\n}\ncomplete -F _weft weft");
}

/* ---- zsh ---- */

/* An array of 'name:text', for _describe. */
static void print_described(const char *name, const char *text) {
    printf(" '%s:", name);
    print_quoted(text, ":\\");
    fputs("'", stdout);
}

static void print_zsh_verb(const verb *v) {
    const option *o;
    printf("    %s)\n        compadd -- ", v->name);
    print_words(v);
    fputs("\n        options=(", stdout);
    for (size_t i = 0; (o = option_at(i)); i++) {
        if (o->sets & v->sets) {
            char name[OPTION_NAME + 2];
            snprintf(name, sizeof name, "--%s", o->name);
            print_described(name, o->text);
            if (options_letter(o)) {
                snprintf(name, sizeof name, "-%c", options_letter(o));
                print_described(name, o->text);
            }
        }
    }
    puts(") ;;");
}

static void print_zsh(void) {
    const option *o;
    puts("#compdef weft\n# zsh completion for weft; written by 'weft completion zsh'\n_weft() {\n    local -a verbs "
         "options\n"
         "    case ${words[CURRENT-1]} in");
    for (size_t i = 0; (o = option_at(i)); i++) {
        if (o->type == OPTION_CHOICE || takes_file(o)) {
            fputs("    ", stdout);
            print_option(o);
            fputs(") compadd -- ", stdout);
            print_values(o);
            puts(takes_file(o) ? "; _files; return ;;" : "; return ;;");
        }
    }
    fputs("    esac\n    verbs=(", stdout);
    for (const verb *v = verb_table; v->name; v++) {
        if (!is_hidden(v)) {
            print_described(v->name, help_expand(v->text).text);
        }
    }
    puts(" 'help:examples and options of a verb')\n    if ((CURRENT == 2)) || [[ $CURRENT == 3 && ${words[2]} == help ]]; "
         "then\n"
         "        _describe -t verbs verb verbs\n        return\n    fi\n    case ${words[2]} in");
    for (const verb *v = verb_table; v->name; v++) {
        if (!is_hidden(v)) {
            print_zsh_verb(v);
        }
    }
    puts("    esac\n    _describe -o -t options option options\n}\n"
         "if [[ ${funcstack[1]} == _weft ]]; then _weft \"$@\"; else compdef _weft weft; fi");
}

/* ---- fish ---- */

static void print_fish_option(const option *o) {
    fputs("complete -c weft -n '__fish_seen_subcommand_from", stdout);
    for (const verb *v = verb_table; v->name; v++) {
        if (o->sets & v->sets && !is_hidden(v)) {
            printf(" %s", v->name);
        }
    }
    printf("' -l %s", o->name);
    if (options_letter(o)) {
        printf(" -s %c", options_letter(o));
    }
    fputs(o->argument[0] == '\0' ? "" : takes_file(o) ? " -r -F" : " -x", stdout);
    if (o->type == OPTION_CHOICE || o->type == OPTION_MACHINE || strcmp(o->name, "profile") == 0) {
        fputs(" -a '", stdout);
        print_values(o);
        fputs("'", stdout);
    }
    fputs(" -d '", stdout);
    for (const char *c = o->text; *c; c++) {
        printf("%s%c", strchr("'\\", *c) ? "\\" : "", *c);
    }
    puts("'");
}

static void print_fish(void) {
    const option *o;
    puts("# fish completion for weft; written by 'weft completion fish'\ncomplete -c weft -f\n"
         "complete -c weft -n __fish_use_subcommand -a help -d 'examples and options of a verb'");
    for (const verb *v = verb_table; v->name; v++) {
        if (!is_hidden(v)) {
            printf("complete -c weft -n __fish_use_subcommand -a %s -d '", v->name);
            const help_text text = help_expand(v->text);
            for (const char *c = text.text; *c; c++) {
                printf("%s%c", strchr("'\\", *c) ? "\\" : "", *c);
            }
            printf("'\ncomplete -c weft -n '__fish_seen_subcommand_from %s' -a '", v->name);
            print_words(v);
            puts("'");
        }
    }
    fputs("complete -c weft -n '__fish_seen_subcommand_from help' -a '", stdout);
    print_verbs();
    puts("'");
    for (size_t i = 0; (o = option_at(i)); i++) {
        print_fish_option(o);
    }
}

int cmd_completion(const settings *s, const char *const *words, size_t count) {
    static const struct {
        const char *shell;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    (void)s;
    (void)count;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        if (weft_names_agree(words[0], shells[i].shell)) {
            shells[i].print();
            return EXIT_OK;
        }
    }
    return complain(EXIT_USAGE, "completion for %s is not known: bash, zsh and fish are", words[0]);
}
