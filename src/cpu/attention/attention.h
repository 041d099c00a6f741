/* The CPU's attention. */
#ifndef WEFT_CPU_ATTENTION_ATTENTION_H
#define WEFT_CPU_ATTENTION_ATTENTION_H

#include "plan/plan.h"

weft_status weft_cpu_attention(const weft_plan *plan, const weft_attention_data *data, weft_message *message);
weft_status weft_cpu_attention_backward(const weft_attention *problem, const weft_attention_gradients *data,
                                        weft_message *message);

#endif
