"""Instructions a step: test_step_instructions.py PROGRAM DEVICE WHAT LOWEST HIGHEST

Counts them with callgrind for 1, 32 and 64 changed nodes of 64, or for as many slots. Those of PROGRAM itself, which Rondo is linked
into, are told from the double's and the C library's. They must grow linearly with the number of what changed, and not grow from one
change of Rondo to the next: the ratio between 64 and 1 has bounds, LOWEST and HIGHEST. Times play no part. Exit code 77: there is no
valgrind.
"""
import collections
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

STEPS = 200


def self_costs(text):
    """Instructions by object, callees not included. The format: valgrind.org/docs/manual/cl-format.html"""
    names, costs, current, skip = {}, collections.Counter(), "?", False
    for line in text.splitlines():
        if line.startswith("ob="):
            number, _, name = line[3:].partition(" ")
            current = names.setdefault(number, name)
        elif line.startswith("cob="):
            number, _, name = line[4:].partition(" ")
            names.setdefault(number, name)
        elif line.startswith("calls="):
            skip = True  # the next line is what the callee cost
        elif line[:1].isdigit() or line[:1] in "+-*" and line:
            if not skip:
                costs[current] += int(line.split()[1])
            skip = False
    return costs


def without_avx512(folder):
    """A host compiler for kernels that valgrind can run."""
    compiler = folder / "c++"
    compiler.write_text(f'#!/bin/sh\nexec "{os.environ.get("RONDO_HOST_CXX") or "c++"}" "$@" -mno-avx512f\n')
    compiler.chmod(0o755)
    return str(compiler)


def measure(program, device, what, changed):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        environment = dict(os.environ)
        if platform.machine() == "x86_64":
            environment.update(RONDO_HOST_CXX=without_avx512(pathlib.Path(folder)), RONDO_CACHE_DIR=folder)
        subprocess.run(["valgrind", "--tool=callgrind", "--toggle-collect=rondo_one_step", f"--callgrind-out-file={out}",
                        program, device, what, str(changed), str(STEPS)], check=True, stderr=subprocess.DEVNULL,
                       env=environment)
        costs = self_costs(out.read_text())
    of_rondo = sum(cost for name, cost in costs.items() if name and os.path.realpath(name) == os.path.realpath(program))
    return of_rondo / STEPS, (sum(costs.values()) - of_rondo) / STEPS


def main(program, device, what, lowest, highest):
    if shutil.which("valgrind") is None:
        print("skipped: there is no valgrind")
        return 77
    rondo = {}
    for changed in (1, 32, 64):
        rondo[changed], others = measure(program, device, what, changed)
        print(f"{device}, {changed} {what} changed: {rondo[changed]:.0f} instructions of Rondo a step, {others:.0f} of others")
    first, second = (rondo[32] - rondo[1]) / 31, (rondo[64] - rondo[32]) / 32
    ratio = rondo[64] / rondo[1]
    print(f"one more: {first:.1f} from 1 to 32, {second:.1f} from 32 to 64; ratio of 64 to 1: {ratio:.2f}")
    assert abs(first - second) <= 0.05 * first, f"the instructions of a step are not linear in the number of changed {what}"
    assert lowest <= ratio <= highest, f"the ratio is not within {lowest} and {highest}"
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), float(sys.argv[5])))
