#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks at a wheel, and tries it in an empty virtual environment.

    wheel.py FOLDER    the wheel in FOLDER/dist; the environment is FOLDER/empty

What importing it and a round over TCP map into the process has to lie in the environment, or be a module of the interpreter. Importing
it may take 50 ms of processor time over importing NumPy.
"""

import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import venv
import zipfile

MOST_BYTES = 8 * 2**20
NAME = re.compile(r"tarry-[0-9.]+-cp311-abi3-manylinux_2_[0-9]+_(x86_64|aarch64)\.whl")
IMPORTS = 7
MOST_IMPORT_SECONDS = 0.050

# Runs in the environment: a round, and the mapped libraries that came with Tarry.
TRIAL = """
import pathlib, sys, threading
import _cffi_backend, numpy

def mapped():
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return {words[5] for words in (line.split(maxsplit=5) for line in lines) if len(words) == 6 and ".so" in words[5]}

before = mapped()
import tarry

def work(address):
    with tarry.Worker(address, insecure=True) as worker:
        for task in worker:
            task.gradient[:] = [sum(span.count for span in task.spans), task.parameters[1]]

with tarry.Plan(workers=2, chunks=4, pieces=1, replication=1) as plan, \\
     tarry.Server(plan, dimension=2, listen="127.0.0.1:0", insecure=True) as server:
    threads = [threading.Thread(target=work, args=(server.addresses[0],)) for _ in range(2)]
    for thread in threads:
        thread.start()
    server.wait(timeout=60)
    total = numpy.zeros(2, numpy.float32)
    server.round(numpy.array([0, 5], numpy.float32), out=total)
for thread in threads:
    thread.join()
assert total.tolist() == [4, 20], total
print(*sorted(mapped() - before), sep="\\n")
"""
TIMES = "import numpy, time; start = time.process_time(); import tarry; print(time.process_time() - start)"


def faults_of(wheel):
    """What is wrong with the file itself."""
    if not NAME.fullmatch(wheel.name):
        yield f"the name is {wheel.name}"
    if wheel.stat().st_size > MOST_BYTES:
        yield f"it has {wheel.stat().st_size} bytes, more than {MOST_BYTES}"
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("tarry/LICENSE", "tarry/py.typed"):
        if wanted not in names:
            yield f"{wanted} is missing"
    for name in names:
        if name.startswith("tarry.libs/"):
            library = pathlib.PurePath(name).name.split(".so")[0].rsplit("-", 1)[0]
            if not any(other.endswith(f".dist-info/licenses/{library}.txt") for other in names):
                yield f"the licence of {library} is missing"


def main(folder):
    wheels = list((folder / "dist").glob("*.whl"))
    if len(wheels) != 1:
        sys.exit(f"wheel.py: {len(wheels)} wheels in {folder / 'dist'}")
    faults = list(faults_of(wheels[0]))
    home = folder / "empty"
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", wheels[0]], check=True)
    trial = subprocess.run([python, "-I", "-c", TRIAL], capture_output=True, text=True, timeout=120, check=False)
    if trial.returncode != 0:
        faults.append(f"the trial ended with status {trial.returncode}:\n{trial.stderr}")
    faults += [f"it takes {library} of the system" for library in trial.stdout.split()
               if not library.startswith(f"{home}/") and "/lib-dynload/" not in library]
    script = subprocess.run([home / "bin" / "tarry", "--version"], capture_output=True, text=True, check=False)
    if script.stdout != f"tarry {wheels[0].name.split('-')[1]}\n":
        faults.append(f"tarry --version says {script.stdout!r} {script.stderr}")
    seconds = statistics.median(float(subprocess.check_output([python, "-I", "-c", TIMES])) for _ in range(IMPORTS))
    print(f"{wheels[0].name}: {wheels[0].stat().st_size / 2**20:.1f} MiB; importing it takes {1e3 * seconds:.0f} ms of "
          f"processor time over importing numpy (median of {IMPORTS})")
    if seconds > MOST_IMPORT_SECONDS:
        faults.append(f"importing it takes {1e3 * seconds:.0f} ms, more than {1e3 * MOST_IMPORT_SECONDS:.0f}")
    for fault in faults:
        print(f"wheel.py: {wheels[0].name}: {fault}", file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
