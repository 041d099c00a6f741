/* A schedule as words: "tile_m=96 tile_n=480 order=head-first". What is open is left out. */
#ifndef WEFT_TUNE_WORDS_H
#define WEFT_TUNE_WORDS_H

#include <weft/weft.h>

enum { WEFT_WORDS = 320 }; /* bytes that hold any schedule, with the final null */

void weft_schedule_write(const weft_schedule *schedule, char text[WEFT_WORDS]);

/* WEFT_INVALID when a word is not known; fields that no word names are open. */
weft_status weft_schedule_read(weft_schedule *schedule, const char *text, weft_message *message);

/* Whether two schedules have the same choices made, and the same ones open. */
int weft_schedule_same(const weft_schedule *a, const weft_schedule *b);

#endif
