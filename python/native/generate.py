#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the C source of the extension module tarry._native (cffi, API mode, limited API).

Usage: generate.py OUTPUT INCLUDE... -- COMPILER...
"""

import pathlib
import sys

import cffi

import declarations

# Called by C's threads: cffi takes the interpreter's lock for them.
CALLBACKS = """
extern "Python" int tarry_py_begin(void *user, tarry_tcp_worker *worker, const tarry_tcp_job *job, uint8_t *data,
                                   tarry_diagnostic *diagnostic);
extern "Python" void tarry_py_observe(void *user, const tarry_tcp_notice *notice);
extern "Python" void tarry_py_tell(void *user, const char *line);
extern "Python" uint64_t tarry_py_state_size(void *user);
extern "Python" int tarry_py_save(void *user, uint64_t first, void *bytes, size_t size);
extern "Python" int tarry_py_load(void *user, uint64_t total, uint64_t first, const void *bytes, size_t size);
extern "Python" int tarry_py_append(void *user, const tarry_sum_id *entry);
extern "Python" int tarry_py_look(void *user, const tarry_server *machine);
extern "Python" void tarry_py_engine_address(tarry_engine *engine, uint8_t *bytes, size_t *size);
extern "Python" int tarry_py_engine_form(tarry_engine *engine, const tarry_engine_group *group,
                                         tarry_diagnostic *diagnostic);
extern "Python" int tarry_py_engine_start(tarry_engine *engine, const tarry_engine_sum *sum);
extern "Python" void tarry_py_engine_wait(tarry_engine *engine, uint64_t until_ns, tarry_engine_progress *progress);
extern "Python" void tarry_py_engine_wake(tarry_engine *engine);
extern "Python" void tarry_py_engine_abandon(tarry_engine *engine);
"""

# An engine of sums in Python: what the library's begin with, and the object.
ENGINE = """
typedef struct tarry_py_engine {
    tarry_engine base;
    void *user;
} tarry_py_engine;
"""


# The destructor of libuv joins the threads of its pool, which a child of fork does not have, and crashes. Work in the
# child makes them anew.
POOL = """
#include <uv.h>

static void work_nothing(uv_work_t *work) { (void)work; }
static void work_nothing_more(uv_work_t *work, int status) { (void)work; (void)status; }

static void tarry_py_renew_pool(void)
{
    uv_loop_t loop;
    uv_work_t work;
    if (uv_loop_init(&loop) != 0)
        return;
    uv_queue_work(&loop, &work, work_nothing, work_nothing_more);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}
"""
POOL_DECLARATION = "void tarry_py_renew_pool(void);\n"


def main():
    output, rest = sys.argv[1], sys.argv[2:]
    middle = rest.index("--")
    includes, compiler = rest[:middle], rest[middle + 1 :]
    ffi = cffi.FFI()
    ffi.cdef(declarations.declarations(compiler, includes) + ENGINE + CALLBACKS + POOL_DECLARATION)
    ffi.set_source("tarry._native", "#include <tarry/tarry.h>\n" + ENGINE + POOL)
    ffi.emit_c_code(output)
    pathlib.Path(output).touch()


main()
