/* SPDX-License-Identifier: Apache-2.0 */
// Weft from C++: an attention under two orders on the machine that is named, and then on this CPU under the better one.
//   two_orders [MACHINE] [ORDER ORDER]
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <weft/report.h>
#include <weft/sim.h>

namespace {

// A call of the library throws what it says.
template <typename Function, typename... Arguments> void call(Function function, Arguments... arguments) {
    weft_message message;
    if (function(arguments..., &message) != WEFT_OK) {
        throw std::runtime_error(message.text);
    }
}

using Plan = std::unique_ptr<weft_plan, decltype(&weft_plan_destroy)>;

Plan make_plan(const weft_attention &problem, const std::string &order, const weft_machine *machine) {
    weft_schedule schedule = WEFT_SCHEDULE_INIT;
    schedule.order = weft_order_find(order.c_str());
    if (schedule.order == 0) {
        throw std::runtime_error("there is no order " + order);
    }
    weft_plan_options options = WEFT_PLAN_OPTIONS_INIT;
    options.schedule = &schedule;
    options.machine = machine;
    weft_plan *plan = nullptr;
    call(weft_plan_create, &plan, &problem, &options);
    return Plan(plan, weft_plan_destroy);
}

// Batch 2, 16 query heads over 4 kv heads of 128, causal.
weft_attention attention(int64_t seq, weft_dtype dtype) {
    weft_attention problem = WEFT_ATTENTION_INIT;
    problem.batch = 2;
    problem.heads = 16;
    problem.kv_heads = 4;
    problem.seq = problem.kv_seq = seq;
    problem.head_dim = 128;
    problem.dtype = dtype;
    problem.mask = WEFT_MASK_CAUSAL;
    return problem;
}

// The better order for 16K queries on a machine.
std::string compare(const weft_machine &machine, const std::vector<std::string> &orders) {
    std::string best;
    double least = HUGE_VAL;
    for (const std::string &order : orders) {
        weft_simulation simulation = WEFT_SIMULATION_INIT;
        const Plan plan = make_plan(attention(16384, WEFT_BF16), order, &machine);
        call(weft_simulate, plan.get(), nullptr, &simulation, nullptr);
        std::printf("%-20s on %s: %8.3f ms, %s, %.2f GB from DRAM\n", order.c_str(), machine.name, 1e3 * simulation.seconds,
                    weft_rate_text(simulation.tflops).text, static_cast<double>(simulation.total.dram_read_bytes) / 1e9);
        if (simulation.seconds < least) {
            least = simulation.seconds;
            best = order;
        }
    }
    return best;
}

// Runs 200 queries here, where every key's value is its number: query 0 sees key 0 alone.
bool run(const std::string &order) {
    const weft_attention problem = attention(200, WEFT_FP32);
    const size_t row = 128, queries = 2 * 200 * 16 * row, keys = 2 * 200 * 4 * row;
    std::vector<float> q(queries), k(keys), v(keys), o(queries);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float &x : q) {
        x = normal(random);
    }
    for (size_t i = 0; i < keys; i++) {
        k[i] = normal(random);
        v[i] = static_cast<float>(i / (4 * row) % 200);
    }
    weft_attention_data data = WEFT_ATTENTION_DATA_INIT;
    data.q = q.data();
    data.k = k.data();
    data.v = v.data();
    data.o = o.data();
    call(weft_plan_run, make_plan(problem, order, nullptr).get(), &data);
    bool right = o[0] == 0;
    for (size_t i = 0; i < queries; i++) { // a mean of the keys that it sees
        right = right && o[i] >= 0 && o[i] <= static_cast<float>(i / (16 * row) % 200) + 1e-3f;
    }
    std::printf("ran here in the order %s: %s\n", order.c_str(), right ? "every query sees its own keys" : "wrong");
    return right;
}

} // namespace

int main(int count, char **arguments) {
    try {
        weft_machine machine = WEFT_MACHINE_INIT;
        call(weft_machine_load, &machine, count > 1 ? arguments[1] : "h200");
        std::vector<std::string> orders = {"block-first", "head-first"};
        if (count > 3) {
            orders = {arguments[2], arguments[3]};
        }
        return run(compare(machine, orders)) ? 0 : 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "two_orders: %s\n", error.what());
        return 1;
    }
}
