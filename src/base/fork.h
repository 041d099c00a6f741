/* SPDX-License-Identifier: Apache-2.0 */
/* What a child of fork() must not find half done: a lock that a thread holds which the child has not, a file that is locked
 * for as long as any copy of its descriptor is open, SQLite's lists of open files. A fork waits for those who hold it. */
#ifndef WEFT_BASE_FORK_H
#define WEFT_BASE_FORK_H

/* Any number of threads hold it at once, and a thread may hold it again. Not for long. */
void weft_fork_hold(void);
void weft_fork_release(void);

#endif
