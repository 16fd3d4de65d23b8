#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the folders of src to their order of dependency.

An #include that goes up the order is a fault, and so is a system function that a folder may not use: the state
machines take no time, no socket, no thread and no memory but the caller's. The objects to look at are those of the
compilation database, so that what an old build left behind does not count.

    layers.py SOURCE_ROOT BUILD_ROOT    checks a tree; one line per fault, exit status 1 if there is any
    layers.py --self-test               shows that planted faults are found
"""

import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

# The rooms, each with those right below it: it may include from them and from all that these may include from. A room is
# a folder, or a header that stands below the folder it lies in.
BELOW = {
    "base": (),
    "privacy": ("base",),
    "privacy/secure": ("base",),
    "plan/plan.h": ("base",),
    "plan/rack": ("plan/plan.h",),
    "plan/decode": ("plan/plan.h",),
    "plan/order": ("plan/plan.h",),
    "plan/design": ("plan/plan.h",),
    "plan/evolve": ("plan/decode", "plan/rack"),
    "plan/exposure": ("plan/plan.h",),
    "plan": ("plan/design", "plan/evolve", "plan/exposure", "plan/order"),
    "coding": ("plan",),
    "compress": ("base",),
    "straggler": ("coding",),
    "protocol": ("coding", "compress", "privacy/secure"),
    "protocol/terms": ("protocol",),
    "protocol/wire": ("protocol/terms",),
    "protocol/vote": ("protocol",),
    "protocol/steering/estimate.h": ("protocol",),
    "protocol/steering/pace.h": ("protocol",),
    "protocol/steering/recent.h": ("protocol",),
    "protocol/steering/steering.h": ("protocol/steering/estimate.h", "protocol/steering/pace.h"),
    "protocol/server/server_state.h": ("protocol/wire", "protocol/vote", "protocol/steering/steering.h", "protocol/steering/recent.h"),
    "protocol/steering": ("protocol/server/server_state.h",),
    "protocol/server": ("protocol/steering",),
    "protocol/worker": ("protocol/vote",),
    "sim/links": ("base", "compress"),
    "sim": ("protocol/server", "protocol/worker", "sim/links", "straggler"),
    "engine": ("coding", "compress"),
    "runtime/clock.h": (),
    "runtime": ("protocol/server", "protocol/worker", "straggler", "engine", "runtime/clock.h"),
    "runtime/sum": ("runtime",),
    "runtime/worker": ("runtime",),
    "runtime/host": ("runtime/sum", "runtime/worker"),
    "runtime/local": ("runtime/host",),
    "runtime/tcp/trust": ("runtime",),
    "runtime/tcp/net": ("runtime/sum", "runtime/tcp/trust"),
    "runtime/tcp/control": ("runtime/tcp/net",),
    "runtime/tcp/mesh": ("runtime/tcp/net", "runtime/worker"),
    "runtime/tcp/server": ("runtime/host", "runtime/tcp/mesh"),
    "runtime/tcp/worker": ("runtime/tcp/mesh",),
    "runtime/tcp/viewer": ("runtime/tcp/net",),
    "file": ("base",),
    "release": ("file", "privacy"),
    "secure": ("plan/exposure", "runtime/tcp/trust"),
    "mpi": ("runtime/clock.h",),
    "pki": ("runtime/tcp/trust",),
    "learn": ("base",),
    "cli/command.h": (),
    "cli/text": ("base",),
    "cli/options": ("cli/text", "learn", "runtime/tcp/net"),
    "cli/output": ("cli/options",),
    "cli/job": ("cli/output", "privacy"),
    "cli/runner": ("cli/job", "pki", "runtime/tcp/server"),
    "cli/checkpoint": ("cli/runner", "file", "release"),
    "cli/train": ("cli/checkpoint", "cli/command.h", "pki", "secure", "sim"),
    "cli/mpi": ("cli/train", "cli/work", "mpi"),
    "cli/work": ("cli/command.h", "cli/job", "runtime/tcp/worker"),
    "cli/simulate": ("cli/command.h", "cli/job", "sim"),
    "cli/plan": ("cli/checkpoint", "cli/simulate"),
    "cli/privacy": ("cli/command.h", "cli/output", "privacy"),
    "cli/keys": ("cli/command.h", "cli/output", "pki"),
    "cli/top": ("cli/command.h", "cli/output", "runtime/tcp/viewer"),
    "cli": ("cli/command.h", "cli/text", "cli/options"),
    "tests/worlds/model": ("base",),
    "tests/worlds": ("protocol/server", "protocol/worker", "tests/worlds/model"),
    "tests/worlds/campaign.h": ("tests/worlds",),
    "tests/worlds/campaign.c": ("cli/output", "tests/worlds/campaign.h"),
    "tests/worlds/main.c": ("cli/text", "tests/worlds/campaign.h"),
    "bench/program/emulated": ("runtime/tcp/net",),
    "bench/program": ("bench/program/emulated", "cli/output", "pki", "sim", "runtime/tcp/server", "runtime/tcp/worker"),
}
# Beside src: a folder, and the one in it that keeps to the order and is named from there.
BESIDE = {"bench": "program", "tests": "worlds"}
# What reads as one thing in a sitting: lines of a file and of a function, and files of a folder.
MOST_LINES = 1500
MOST_FUNCTION_LINES = 120
MOST_FILES = 40
C_LIBRARY = {"assert", "errno", "inttypes", "limits", "stdbool", "stddef", "stdint"}

NETWORK = r"socket|socketpair|connect|bind|listen|accept4?|shutdown|send(to|msg|mmsg|file)?|recv(from|msg|mmsg)?" \
          r"|p?select|p?poll|epoll_\w+|eventfd|getaddrinfo|gethostby\w+"
THREADS = r"pthread_\w+|thrd_\w+|mtx_\w+|cnd_\w+|tss_\w+|call_once|sem_\w+|fork|vfork|exec\w+|posix_spawn\w*|system"
CLOCK = r"time|gettimeofday|clock|clock_\w+|nanosleep|usleep|sleep|timespec_get|timerfd_\w+|timer_\w+|alarm"
FILES = r"f?open|fdopen|openat|fclose|close|fread|read|pread|fwrite|write|pwrite|v?f?printf|v?dprintf|v?f?scanf" \
        r"|f?puts|f?putc|putchar|f?getc|getchar|fgets|getline|fflush|perror|fseek\w*|mmap|std(in|out|err)"
MEMORY = r"malloc|calloc|realloc|reallocarray|free|aligned_alloc|posix_memalign|memalign|strn?dup|v?asprintf"
RANDOM = r"s?rand(_r)?|s?random(_r)?|\w?rand48(_r)?|getrandom|getentropy|arc4random\w*"
ENVIRONMENT = r"(secure_)?getenv|setenv|putenv|signal|sigaction|exit|_exit|quick_exit|atexit"

MESSAGE_PASSING = r"P?MPI_\w+"

PURE = (NETWORK, THREADS, CLOCK, FILES, MEMORY, RANDOM, ENVIRONMENT)
MAY_NOT_USE = {
    "base": PURE,
    "privacy": PURE,
    "plan": PURE,
    "coding": PURE,
    "straggler": PURE,
    "protocol": PURE,
    "engine": (FILES, MEMORY, RANDOM, ENVIRONMENT),
    "runtime": (FILES, MEMORY, RANDOM, ENVIRONMENT),
    "file": (NETWORK, THREADS, CLOCK, MEMORY, RANDOM, ENVIRONMENT),
    "release": (NETWORK, THREADS, CLOCK, MEMORY, ENVIRONMENT),
    "secure": (NETWORK, CLOCK, MEMORY, RANDOM, ENVIRONMENT),
    "pki": (FILES, MEMORY, RANDOM, ENVIRONMENT),
    "sim": PURE,
    "tests": PURE,
    "learn": (NETWORK, THREADS, CLOCK, MEMORY, RANDOM, ENVIRONMENT),
}
for families in MAY_NOT_USE:
    MAY_NOT_USE[families] += (MESSAGE_PASSING,)
# The files whose business it is.
EXCEPT = {
    "base/memory.c": MEMORY,
    "engine/shared.c": FILES,
    "plan/design/design_file.c": FILES,
    "plan/rack/rack_file.c": FILES,
    "runtime/tcp/net/address.c": r"close",
    "runtime/tcp/net/channel.c": r"close",
    "runtime/tcp/net/session.c": r"close",
    "runtime/tcp/control/control.c": r"close|eventfd|read|write",
    "runtime/tcp/mesh/mesh.c": r"close",
    "runtime/tcp/server/peer.c": r"close",
    "straggler/trace.c": FILES,
    "tests/worlds/campaign.c": THREADS + r"|clock_gettime",
    "tests/worlds/main.c": FILES,
    "runtime/tcp/trust/private_file.c": FILES,
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def includes(path):
    """Yields (line, '<' or '"', name) for each #include of a file."""
    text = path.read_text()
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start(2)) + 1, match[1], match[2]


def room_of(name):
    """The room of a file, named from src on (or from bench/ or tests/ on)."""
    return name if name in BELOW else name.rpartition("/")[0]


def reach(room):
    """The rooms that a room may include from: itself, and all below it."""
    return {room}.union(*(reach(below) for below in BELOW[room]))


def function_faults(name, path):
    """A function is what stands between a brace that begins a line and one that is a line."""
    if path.suffix not in (".c", ".h"):
        return
    start = 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line == "{":
            start = number
        elif line == "}" and start > 0:
            if number - start - 1 > MOST_FUNCTION_LINES:
                yield f"{name}:{start}: {number - start - 1} lines of a function are more than {MOST_FUNCTION_LINES}"
            start = 0


def size_faults(root):
    folders = collections.Counter()
    for path in sorted((root / "src").rglob("*")):
        if path.is_file():
            folders[path.parent.relative_to(root).as_posix()] += 1
            lines = len(path.read_bytes().splitlines())
            name = path.relative_to(root).as_posix()
            if lines > MOST_LINES:
                yield f"{name}: {lines} lines are more than {MOST_LINES}"
            yield from function_faults(name, path)
    yield from (f"{folder}: {files} files are more than {MOST_FILES}"
                for folder, files in sorted(folders.items()) if files > MOST_FILES)


def include_faults(root):
    beside = [path for folder, inner in BESIDE.items() for path in (root / folder / inner).rglob("*.[ch]")]
    for path in sorted([*(root / "src").rglob("*.[ch]"), *beside]):
        name = path.relative_to(root).as_posix()
        room = room_of(name.removeprefix("src/"))
        if room not in BELOW:
            yield f"{name}: the folder '{room}' has no place in the order"
            continue
        below = reach(room)
        for line, quote, target in includes(path):
            folder = name.partition("/")[0]
            own = folder in BESIDE and target.startswith(BESIDE[folder] + "/")
            other = room_of(f"{folder}/{target}" if own else target)
            if ".." in pathlib.PurePosixPath(target).parts:
                yield f"{name}:{line}: {target} climbs out of its folder"
            elif (quote == '"' or other in BELOW) and other not in below:
                yield f"{name}:{line}: {room} may not include {target}"
    for path in sorted((root / "include" / "tarry").glob("*.h")):
        for line, quote, target in includes(path):
            parent, stem = target.rpartition("/")[::2]
            public = parent == "tarry" and any((path.parent / (stem + end)).exists() for end in ("", ".in"))
            standard = parent == "" and stem.removesuffix(".h") in C_LIBRARY
            if quote != "<" or not (public or standard):
                yield f"include/tarry/{path.name}:{line}: {target} is neither public nor of the C library"


def objects(build):
    """Yields (source, object) for each file of the compilation database."""
    for command in json.loads((build / "compile_commands.json").read_text()):
        source = (pathlib.Path(command["directory"]) / command["file"]).resolve()
        yield source, pathlib.Path(command["directory"]) / command["output"]


def wanted_symbols(paths):
    """Yields (object, symbol) for what the objects leave to others to define."""
    output = subprocess.run(["nm", "-u", "-A", *paths], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        path, _, symbol = line.rpartition(":")
        yield pathlib.Path(path), symbol.split()[-1].split("@")[0]


def plain_name(symbol):
    """The C name behind a fortified, large-file or versioned one: __printf_chk is printf."""
    return re.sub(r"^(__|_IO_|_)?(isoc\d+_)?|_chk$|64(_chk)?$", "", symbol)


def symbol_faults(root, build):
    folders = root / "src", root / "tests" / "worlds"
    names = {object_file: source.relative_to(root).as_posix().removeprefix("src/") for source, object_file in objects(build)
             if any(map(source.is_relative_to, folders)) and object_file.exists()}
    if not names:
        yield f"{build.name}: no object files of src: is it built?"
        return
    for object_file, symbol in sorted(wanted_symbols(names)):
        name, plain = names[object_file], plain_name(symbol)
        for family in MAY_NOT_USE.get(name.split("/")[0], ()):
            if re.fullmatch(family, plain) and not re.fullmatch(EXCEPT.get(name, r"(?!)"), plain):
                yield f"{'' if name.startswith('tests/') else 'src/'}{name}: uses {symbol}"


def faults(root, build):
    return [*size_faults(root), *include_faults(root), *symbol_faults(root, build)]


def self_test():
    planted = {
        "src/base/up.c": ('#include "plan/plan.h"\n', "src/base/up.c:1: base may not include plan/plan.h"),
        "src/straggler/side.c": ('\n#include "protocol/server/server_state.h"\n',
                                 "src/straggler/side.c:2: straggler may not include protocol/server/server_state.h"),
        "src/plan/design/up.c": ('#include "plan/evolve/evolve.h"\n',
                                 "src/plan/design/up.c:1: plan/design may not include plan/evolve/evolve.h"),
        "src/runtime/tcp/worker/side.c": (
            '#include "runtime/tcp/server/peer.h"\n',
            "src/runtime/tcp/worker/side.c:1: runtime/tcp/worker may not include runtime/tcp/server/peer.h"),
        "src/learn/up.c": ("#include <coding/kernel.h>\n", "src/learn/up.c:1: learn may not include coding/kernel.h"),
        "src/sim/climb.c": ('#include "../cli/a.h"\n', "src/sim/climb.c:1: ../cli/a.h climbs out of its folder"),
        "src/cli/text/none.c": ('#include "cli/any.h"\n', "src/cli/text/none.c:1: cli/text may not include cli/any.h"),
        "src/new/a.c": ("", "src/new/a.c: the folder 'new' has no place in the order"),
        "src/learn/long.c": ("\n" * (MOST_LINES + 1),
                             f"src/learn/long.c: {MOST_LINES + 1} lines are more than {MOST_LINES}"),
        "src/learn/function.c": ("void all(void);\nvoid all(void)\n{\n" + "\n" * (MOST_FUNCTION_LINES + 1) + "}\n",
                                 f"src/learn/function.c:3: {MOST_FUNCTION_LINES + 1} lines of a function are more than "
                                 f"{MOST_FUNCTION_LINES}"),
        "bench/program/up.c": ('#include "cli/train/train_run.h"\n',
                               "bench/program/up.c:1: bench/program may not include cli/train/train_run.h"),
        "tests/worlds/model/up.c": ('#include "worlds/cluster.h"\n',
                                    "tests/worlds/model/up.c:1: tests/worlds/model may not include worlds/cluster.h"),
        "tests/worlds/clock.c": ("#include <time.h>\nlong hour(void);\nlong hour(void)\n{\n    return time(0);\n}\n",
                                 "tests/worlds/clock.c: uses time"),
        "include/tarry/a.h": ("#include <zlib.h>\n",
                              "include/tarry/a.h:1: zlib.h is neither public nor of the C library"),
        "src/protocol/clock.c": ("#include <time.h>\nlong now(void);\nlong now(void)\n{\n    return time(0);\n}\n",
                                 "src/protocol/clock.c: uses time"),
        "src/plan/heap.c": ("#include <stdlib.h>\nvoid *get(void);\nvoid *get(void)\n{\n    return malloc(7);\n}\n",
                            "src/plan/heap.c: uses malloc"),
    }
    clean = {
        "src/base/memory.c": "#include <stdlib.h>\nvoid *get(void);\nvoid *get(void)\n{\n    return calloc(7, 1);\n}\n",
        "src/cli/train/all.c": '#include "learn/a.h"\n#include "runtime/b.h"\n#include "plan/plan.h"\n#include <stdio.h>\n',
        "src/plan/rack/a.h": '#include "plan/plan.h"\n',
        "bench/program/b.c": '#include "program/b.h"\n#include "cli/text/complain.h"\n',
        "include/tarry/b.h": "#include <stdint.h>\n#include <tarry/a.h>\n",
    }
    crowd = {f"src/sim/links/{number}.h": "" for number in range(MOST_FILES + 1)}
    with tempfile.TemporaryDirectory() as directory:
        root = pathlib.Path(directory).resolve()
        commands = []
        for name, text in {**clean, **crowd, **{name: text for name, (text, _) in planted.items()}}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            if "(void)" in text:
                output = name.replace("/", "_") + ".o"
                subprocess.run(["cc", "-c", path, "-o", root / output], check=True)
                commands.append({"directory": directory, "file": name, "output": output})
        (root / "compile_commands.json").write_text(json.dumps(commands))
        found = set(faults(root, root))
    expected = {fault for _, fault in planted.values()}
    expected.add(f"src/sim/links: {MOST_FILES + 1} files are more than {MOST_FILES}")
    for fault in sorted(expected - found):
        print(f"planted, but not found: {fault}")
    for fault in sorted(found - expected):
        print(f"found, but not planted: {fault}")
    names = {"__printf_chk": "printf", "open64": "open", "__isoc99_fscanf": "fscanf", "pread64_chk": "pread"}
    wrong = [name for name, plain in names.items() if plain_name(name) != plain]
    for name in wrong:
        print(f"{name} is taken for {plain_name(name)}")
    return found != expected or bool(wrong)


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 2:
        sys.exit(__doc__)
    root, build = (pathlib.Path(argument).resolve() for argument in arguments)
    found = faults(root, build)
    print("\n".join(found) if found else "the folders keep their order")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
