/* SPDX-License-Identifier: Apache-2.0 */
/* An NCCL that is none: ranks are threads of a process, whose memory is the fake CUDA driver's. As in NCCL, a group goes
 * onto a stream and ends when all of its messages have; groups of a stream go one after the other, so that ranks whose
 * rounds are in unlike orders wait for ever; and a message is of as many bytes at both ends, in the order of its rank and
 * peer.
 *
 * The environment variable FAKE_NCCL scripts it, a list of words such as "init=2 late=3":
 *
 *   version=N   what ncclGetVersion says (22105)
 *   late=N      a group comes onto its stream when its communicator has been asked N times after its end (0)
 *   id=E init=E send=E receive=E begin=E group=E error=E async=E count=E rank=E device=E finish=E
 *               fail with ncclResult_t E; async is what ncclCommGetAsyncError tells
 */
#ifndef WEFT_TESTS_DIST_FAKE_NCCL_H
#define WEFT_TESTS_DIST_FAKE_NCCL_H

/* What tests look at, through dlsym(). */
typedef struct fake_nccl_counts {
    int comms;                     /* live */
    int groups, messages, aborted; /* so far */
    int mismatches;                /* messages whose ends have unlike lengths */
} fake_nccl_counts;

#endif
