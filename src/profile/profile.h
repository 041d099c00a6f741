/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles from the inside. */
#ifndef WEFT_PROFILE_PROFILE_H
#define WEFT_PROFILE_PROFILE_H

#include <weft/profile.h>

/* A caller's profile, checked. */
weft_status weft_profile_copy(weft_profile *ours, const weft_profile *theirs, weft_message *message);

#endif
