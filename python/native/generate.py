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
extern "Python" uint64_t tarry_py_state_size(void *user);
extern "Python" int tarry_py_save(void *user, uint64_t first, void *bytes, size_t size);
extern "Python" int tarry_py_load(void *user, uint64_t total, uint64_t first, const void *bytes, size_t size);
extern "Python" int tarry_py_append(void *user, const tarry_sum_id *entry);
extern "Python" int tarry_py_look(void *user, const tarry_server *machine);
"""


# The destructor of libuv joins the threads of its pool, which a child of fork does not have, and crashes. Work in the
# child makes them anew.
POOL = """
#include <tarry/tarry.h>
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
    ffi.cdef(declarations.declarations(compiler, includes) + CALLBACKS + POOL_DECLARATION)
    ffi.set_source("tarry._native", POOL)
    ffi.emit_c_code(output)
    pathlib.Path(output).touch()


main()
