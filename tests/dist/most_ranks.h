/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that tests have, at most. */
#ifndef WEFT_TESTS_DIST_MOST_RANKS_H
#define WEFT_TESTS_DIST_MOST_RANKS_H

enum { MOST_RANKS = 8 };

#endif
