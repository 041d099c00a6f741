"""The calls of the C API 0.2 on a library of version 0.1, which has functions for each operation, and no plan for backward attention.

Temporary: once the library has these calls, this file, its use in _c.py and its mention in tests/python/test_abi.py go.
"""

from __future__ import annotations

import ctypes
from typing import Any, Dict

STRUCTURES = ("PlanOptions",)  # of _c.py that are not in the headers of 0.1
_FORWARD, _BACKWARD, _GEMM = 1, 2, 3
_UNSUPPORTED = 2


def adapt(library: ctypes.CDLL) -> ctypes.CDLL:
    """The library with the calls of 0.2. The handle of a backward plan is that of a forward one."""
    problems: Dict[int, Any] = {}  # of plans, by their handles
    simulate, curve, destroy = library.weft_simulate, library.weft_simulate_curve, library.weft_plan_destroy
    destroy.argtypes = [ctypes.c_void_p]
    library.weft_attention_flops.restype = library.weft_gemm_flops.restype = ctypes.c_double

    def refuse(message: Any, what: str) -> int:
        message._obj.text = f"a backward attention {what}".encode()
        return _UNSUPPORTED

    def weft_problem_check(problem: Any, message: Any) -> int:
        gemm = problem._obj.operation == _GEMM
        return (library.weft_gemm_check if gemm else library.weft_attention_check)(problem, message)

    def weft_problem_flops(problem: Any) -> float:
        operation = problem._obj.operation
        flops = (library.weft_gemm_flops if operation == _GEMM else library.weft_attention_flops)(problem)
        return flops * 2.5 if operation == _BACKWARD else flops

    def weft_plan_create(plan: Any, problem: Any, options: Any, message: Any) -> int:
        operation, given = problem._obj.operation, options._obj
        device = given.device.contents
        if operation == _BACKWARD and (device.kind or device.mode):
            return refuse(message, "runs on the CPU only, and is not tuned")
        make = library.weft_plan_gemm_on if operation == _GEMM else library.weft_plan_attention_on
        status = make(plan, problem, given.schedule, given.machine, given.device, message)
        if not status:
            problems[plan._obj.value] = problem._obj
        return status

    def weft_plan_enqueue(plan: Any, data: Any, stream: Any, message: Any) -> int:
        problem = problems[plan.value]
        if problem.operation == _BACKWARD:
            return library.weft_attention_backward(ctypes.byref(problem), data, message)
        enqueue = library.weft_plan_enqueue_gemm if problem.operation == _GEMM else library.weft_plan_enqueue_attention
        return enqueue(plan, data, ctypes.c_void_p(stream), message)

    def weft_plan_destroy(plan: Any) -> None:
        problems.pop(plan.value, None)
        destroy(plan)

    def weft_tune(problem: Any, *rest: Any) -> int:
        operation = problem._obj.operation
        if operation == _BACKWARD:
            return refuse(rest[-1], "is not tuned")
        return (library.weft_tune_gemm if operation == _GEMM else library.weft_tune_attention)(problem, *rest)

    def weft_simulate(plan: Any, *rest: Any) -> int:
        backward = problems[plan.value].operation == _BACKWARD
        return refuse(rest[-1], "is not simulated") if backward else simulate(plan, *rest)

    def weft_simulate_curve(plan: Any, options: Any, points: Any, count: int, message: Any) -> int:
        backward = problems[plan.value].operation == _BACKWARD
        return refuse(message, "is not simulated") if backward else curve(plan, options, points, ctypes.c_size_t(count), message)

    for function in (weft_problem_check, weft_problem_flops, weft_plan_create, weft_plan_enqueue, weft_plan_destroy, weft_tune,
                     weft_simulate, weft_simulate_curve):  # fmt: skip
        setattr(library, function.__name__, function)
    return library
