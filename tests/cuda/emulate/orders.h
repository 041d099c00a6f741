/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread has ordered and not yet waited for. */
#ifndef WEFT_TESTS_CUDA_EMULATE_ORDERS_H
#define WEFT_TESTS_CUDA_EMULATE_ORDERS_H

#include "emulate.h"

#include <deque>
#include <vector>

template <class T> struct emulated_orders {
    std::vector<T> open;               /* of the group that is not closed yet */
    std::deque<std::vector<T>> groups; /* the oldest first */

    void commit() {
        groups.push_back(std::move(open));
        open.clear();
    }

    /* Does what was ordered, but for the latest groups. */
    template <class F> void wait(size_t pending, F done) {
        while (groups.size() > pending) {
            for (const T &order : groups.front()) {
                done(order);
            }
            groups.pop_front();
        }
    }

    bool none() const {
        return open.empty() && groups.empty();
    }
};

#endif
