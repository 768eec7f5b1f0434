"""Imports torch once, then forks a child for every line: a program, its arguments, and files.

Starting Python and torch anew for every small training would take most of the tests' time.
Each fork is a process of its own to the witness, which begins anew in it.
"""

import json
import os
import runpy
import sys

import torch
import torch._dynamo
import torch.utils.checkpoint

# A first optimizer imports half of torch; better once here than in every child.
torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))]).zero_grad()


def be_born(asked):
    os.environ.update(asked["environment"])
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = asked["command"]
    runpy.run_path(asked["command"][0], run_name="__main__")


def main():
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            be_born(json.loads(line))
            return
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps([child, os.waitstatus_to_exitcode(status)]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
