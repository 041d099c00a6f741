/* SPDX-License-Identifier: Apache-2.0 */
/* Any text as the words of a schedule and as a name. What is accepted is written and read again as the same; what is
 * refused leaves all open and says why. */
#include <weft/dist.h>
#include <weft/tune.h>

#include "base/names.h"
#include "require.h"

static void check_schedule(const char *text) {
    const weft_schedule open = WEFT_SCHEDULE_INIT;
    weft_schedule read, again;
    weft_message message = {""};
    char words[WEFT_WORDS];
    const weft_status status = weft_schedule_read(&read, text, &message);
    require((status == WEFT_OK) == (message.text[0] == '\0'));
    if (status == WEFT_OK) {
        memset(words, '#', sizeof words);
        weft_schedule_write(&read, words);
        require(memchr(words, '\0', sizeof words) != NULL);
        require(weft_schedule_read(&again, words, NULL) == WEFT_OK && weft_schedule_same(&read, &again));
    } else {
        require(status == WEFT_INVALID && memchr(message.text, '\0', sizeof message.text) != NULL);
        require(weft_schedule_same(&read, &open));
    }
}

static void check_names(const char *text) {
    const int32_t order = weft_order_find(text), sweep = weft_sweep_find(text), dispatch = weft_dispatch_find(text);
    const int32_t cut = weft_rank_cut_find(text), exchange = weft_exchange_find(text), ring = weft_rank_order_find(text);
    require(!order || weft_names_agree(weft_order_describe(order)->name, text));
    require(!sweep || weft_names_agree(weft_sweep_describe(sweep)->name, text));
    require(!dispatch || weft_names_agree(weft_dispatch_describe(dispatch)->name, text));
    require(!cut || weft_names_agree(weft_rank_cut_name(cut), text));
    require(!exchange || weft_names_agree(weft_exchange_name(exchange), text));
    require(!ring || weft_names_agree(weft_rank_order_describe(ring)->name, text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { MOST = 400 };
    char text[MOST];
    size = size < MOST ? size : MOST - 1;
    memcpy(text, data, size);
    text[size] = '\0';
    check_schedule(text);
    check_names(text);
    return 0;
}
