/* weft completion bash: a completion script written from the tables. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "studies/study.h"

static void print_names(const char *(*name)(size_t number)) {
    for (size_t i = 0; name(i); i++) {
        printf("%s%s", i ? " " : "", name(i));
    }
}

/* The words before the options: those in capitals stand for a machine, a profile or a study. */
static void print_words(const verb *v) {
    const char *words = v->words;
    if (strstr(words, "NAME")) {
        print_names(v->run == cmd_profiles ? weft_profile_name : weft_machine_name);
        return;
    }
    if (strstr(words, "STUDY")) {
        for (const study_info *info = study_table; info->name; info++) {
            if (info->run || v->run == cmd_reproduce) { /* a report has no GPU */
                printf("%s ", info->name);
            }
        }
        fputs("all", stdout);
        return;
    }
    for (const char *c = words; *c; c++) {
        putchar(*c == '|' ? ' ' : *c);
    }
}

static void print_options(int sets) {
    const option *o;
    for (size_t i = 0; (o = option_at(i)); i++) {
        if (o->sets & sets) {
            printf(" --%s", o->name);
            if (options_letter(o)) {
                printf(" -%c", options_letter(o));
            }
        }
    }
}

static void print_verbs(void) {
    for (const verb *v = verb_table; v->name; v++) {
        printf("%s ", v->name);
    }
}

int cmd_completion(const settings *s, const char *const *words, size_t count) {
    (void)s;
    (void)count;
    if (strcmp(words[0], "bash") != 0) {
        return complain(EXIT_USAGE, "completion for %s is not known: bash is", words[0]);
    }
    puts("# bash completion for weft; written by 'weft completion bash'\n_weft() {\n"
         "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} list=\n"
         "    case $previous in");
    const option *o;
    for (size_t i = 0; (o = option_at(i)); i++) {
        if (o->type == OPTION_CHOICE) {
            printf("    --%s) list='", o->name);
            for (int32_t k = 0; o->choice(k); k++) {
                printf("%s%s", k ? " " : "", o->choice(k));
            }
            puts("' ;;");
        }
    }
    puts("    -o|--output) COMPREPLY=($(compgen -f -- \"$word\")); return ;;");
    fputs("    --machine) COMPREPLY=($(compgen -f -W '", stdout);
    print_names(weft_machine_name);
    fputs("' -- \"$word\")); return ;;\n    --profile) COMPREPLY=($(compgen -f -W '", stdout);
    print_names(weft_profile_name);
    puts("' -- \"$word\")); return ;;\n    esac\n    if [[ -z $list ]]; then\n        case ${COMP_WORDS[1]} in");
    for (const verb *v = verb_table; v->name; v++) {
        printf("        %s) list='", v->name);
        print_words(v);
        print_options(v->sets);
        puts("' ;;");
    }
    fputs("        help) ((COMP_CWORD == 2)) && list='", stdout);
    print_verbs();
    fputs("' ;;\n        esac\n        ((COMP_CWORD == 1)) && list='", stdout);
    print_verbs();
    puts("help --help --version'\n    fi\n    COMPREPLY=($(compgen -W \"$list\" -- \"$word\"))\n}\ncomplete -F _weft weft");
    return EXIT_OK;
}
