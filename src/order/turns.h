/* Turns of a walk: see weft/order/turns.h. */
#ifndef WEFT_SRC_ORDER_TURNS_H
#define WEFT_SRC_ORDER_TURNS_H

#include <weft/order/turns.h>
#include <weft/weft.h>

/* Prepares the turns of a walk over tiles of keys: the largest groups in which no tile waits for ever, of equal size but
 * for the last; for sweeps that do not shift, groups of one position. WEFT_UNSUPPORTED where workers are too few to run the
 * tiles of a head together, and the order does not start them from the first to the last or the other way round; or where
 * the walk has clusters or more positions than are looked at. */
weft_status weft_turns_make(weft_turns *turns, const weft_walk *walk, weft_message *message);

#endif
