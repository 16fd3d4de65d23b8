# SPDX-License-Identifier: Apache-2.0
"""Functions in Python that the library calls: tarry_py_NAME in Python is tarry_call_NAME for the library.

When Python ends, it ends the threads that come back to it, too, in the middle of what they do in C. So tarry_call_NAME
calls Python until `tarry_py_end_calls`, and has an answer of its own afterwards. cffi takes the interpreter's lock.
"""

import re
from typing import NamedTuple


class Callback(NamedTuple):
    result: str
    name: str
    parameters: str
    afterwards: str  # the answer, in C


CALLBACKS = [
    Callback(
        "int", "begin",
        "void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job, uint8_t *data, tarry_diagnostic *diagnostic",
        "return TARRY_ERROR_INTERRUPTED;",
    ),
    Callback("void", "observe", "void *user, const tarry_tcp_notice *notice", "return;"),
    Callback("void", "tell", "void *user, const char *line", "return;"),
    Callback("uint64_t", "state_size", "void *user", "return 0;"),
    Callback("int", "save", "void *user, uint64_t first, void *bytes, size_t size", "return TARRY_ERROR_STATE;"),
    Callback(
        "int", "load", "void *user, uint64_t total, uint64_t first, const void *bytes, size_t size",
        "return TARRY_ERROR_STATE;",
    ),
    Callback("int", "append", "void *user, const tarry_sum_id *entry", "return TARRY_ERROR_FILE;"),
    Callback("int", "look", "void *user, const tarry_server *machine", "return 0;"),
    Callback("void", "engine_address", "tarry_engine *engine, uint8_t *bytes, size_t *size", "*size = 0; return;"),
    Callback(
        "int", "engine_form", "tarry_engine *engine, const tarry_engine_group *group, tarry_diagnostic *diagnostic",
        "return TARRY_ERROR_SYSTEM;",
    ),
    Callback(
        "int", "engine_start", "tarry_engine *engine, const tarry_engine_sum *sum", "return TARRY_ERROR_SYSTEM;"
    ),
    Callback(
        "void", "engine_wait", "tarry_engine *engine, uint64_t until_ns, tarry_engine_progress *progress",
        "*progress = (tarry_engine_progress){.state = TARRY_ENGINE_FAILED, .suspect = TARRY_ENGINE_NOBODY,"
        ' .why = "Python ends"}; return;',
    ),
    Callback("void", "engine_wake", "tarry_engine *engine", "return;"),
    Callback("void", "engine_abandon", "tarry_engine *engine", "return;"),
    Callback(
        "int", "vectors_reserve",
        "tarry_vectors *vectors, uint32_t places, size_t dimension, tarry_element element", "return TARRY_ERROR_STATE;",
    ),
    Callback(
        "int", "vectors_combine",
        "tarry_vectors *vectors, uint32_t into, uint32_t base, const uint32_t *places, const float *coefficients,"
        " uint32_t count",
        "return TARRY_ERROR_STATE;",
    ),
    Callback(
        "int", "vectors_digest", "tarry_vectors *vectors, uint32_t place, uint64_t step, uint64_t *digest",
        "return TARRY_ERROR_STATE;",
    ),
    Callback(
        "int", "vectors_read", "tarry_vectors *vectors, uint32_t place, size_t first, size_t count, void *numbers",
        "return TARRY_ERROR_STATE;",
    ),
    Callback(
        "int", "vectors_write",
        "tarry_vectors *vectors, uint32_t place, size_t first, size_t count, const void *numbers",
        "return TARRY_ERROR_STATE;",
    ),
    Callback("void *", "vectors_host", "tarry_vectors *vectors, uint32_t place", "return NULL;"),
]  # fmt: skip

# `end_calls` waits for calls in progress; false: some were after limit_ns. A child of fork has none of their threads.
GATE = """
#include <stdatomic.h>
#include <time.h>

static atomic_int calls_in_python;
static atomic_bool python_ends;

static void leave_python(void) { atomic_fetch_sub(&calls_in_python, 1); }

static bool enter_python(void)
{
    atomic_fetch_add(&calls_in_python, 1);
    if (!atomic_load(&python_ends))
        return true;
    leave_python();
    return false;
}

static bool tarry_py_end_calls(uint64_t limit_ns)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    atomic_store(&python_ends, true);
    for (uint64_t waited = 0; atomic_load(&calls_in_python) > 0; waited += (uint64_t)pause.tv_nsec) {
        if (waited >= limit_ns)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

static void tarry_py_forget_calls(void) { atomic_store(&calls_in_python, 0); }
"""
GATE_DECLARATIONS = "bool tarry_py_end_calls(uint64_t limit_ns);\nvoid tarry_py_forget_calls(void);\n"


def gated(callback):
    """The function in C."""
    result, name, parameters, afterwards = callback
    arguments = ", ".join(re.findall(r"(\w+)(?:,|$)", parameters))
    call = f"tarry_py_{name}({arguments});"
    if result == "void":
        body = f"{call}\n    leave_python();\n"
    else:
        body = f"{result} answer = {call}\n    leave_python();\n    return answer;\n"
    return (
        f"static {result} tarry_py_{name}({parameters});\n"
        f"static {result} call_{name}({parameters})\n"
        f"{{\n    if (!enter_python()) {{ {afterwards} }}\n    {body}}}\n"
        f"static {result} (*tarry_call_{name})({parameters}) = call_{name};\n"
    )


def declarations():
    """As cffi reads them: Python has functions of C as pointers where they are variables."""
    both = (
        f'extern "Python" {result} tarry_py_{name}({parameters});\n{result} (*tarry_call_{name})({parameters});\n'
        for result, name, parameters, _ in CALLBACKS
    )
    return GATE_DECLARATIONS + "".join(both)


def source():
    return GATE + "\n".join(gated(callback) for callback in CALLBACKS)
