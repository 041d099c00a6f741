/* Names as people write them. */
#ifndef WEFT_BASE_NAMES_H
#define WEFT_BASE_NAMES_H

/* Whether two names are the same but for case, hyphens and underscores: RTX5090 is rtx-5090. */
int weft_names_agree(const char *one, const char *other);

/* Whether a list, "a, b, c", has a name that agrees. */
int weft_names_list(const char *list, const char *name);

#endif
