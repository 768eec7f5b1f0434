"""A stand-in for a training: it says on the witness's channel what the witness says of one.

It needs no torch, so that a launch takes a moment; what it trains is its own business. A file
`first.py` beside it runs before anything is said: a test puts there what should go wrong.
"""

import base64
import json
import os
import select
import socket
import struct
import sys
import sysconfig
import time

place = os.path.join(os.path.dirname(os.path.abspath(__file__)), "first.py")
if os.path.exists(place):
    exec(compile(open(place, encoding="utf-8").read(), place, "exec"))

PACKAGES = sysconfig.get_paths()["purelib"]
options = json.loads(os.environ["INFRARSI_WITNESS"])
channel = socket.socket(socket.AF_UNIX)
channel.connect(options["channel"])


def say(kind, **fields):
    event = {"v": 1, "kind": kind, "rank": 0, "pid": os.getpid(), **fields}
    channel.sendall(json.dumps(event).encode() + b"\n")


def mark(update):
    sketch = base64.b64encode(struct.pack("<4f", *(update + each for each in range(4)))).decode()
    census = {name: {"float32": 4} for name in ("parameters", "gradients", "optimizer_state")}
    census["matmul"] = {"float32": 1}
    flags = {"deterministic_algorithms": False}
    say("mark", update=update, sketch=sketch, counts=[4], shapes=[[4]], census=census, flags=flags)
    if update == max(options["marks"]):
        outside = (sys.prefix + os.sep, sys.base_prefix + os.sep, PACKAGES)
        named = {name: getattr(each, "__file__", None) for name, each in sys.modules.items()}
        files = {os.path.abspath(file) for name, file in named.items() if file
                 and not name.startswith(("infrarsi_", "sitecustomize"))}  # fmt: skip
        say("modules", files=sorted(file for file in files if not file.startswith(outside)))


def heard():
    """Give what the parent asks for, if it asks for anything."""
    ready, _, _ = select.select([channel], [], [], 0)
    return json.loads(channel.recv(1 << 16).partition(b"\n")[0]) if ready else None


def keep(asked):
    os.makedirs(asked["folder"], exist_ok=True)
    for name in ("before.0", "after.0"):
        with open(os.path.join(asked["folder"], name), "wb") as file:
            file.write(b"the state")
    say("kept", update=asked["update"], bytes=18, why=None)


replayed = {each["update"] for each in options.get("replay") or ()}
asked = None
say("hello", torch="none", devices=[])
mark(0)
for update in range(1, 400):
    say("update", update=update)
    digest = "%016x" % update
    say("values", update=update, loss=2.0 + 1 / update, grad_norm=1.0, update_norm=0.1,
        batch=digest, inputs=digest, sequences=1, tokens=16, forwards=1)  # fmt: skip
    if update in options["marks"]:
        mark(update)
    if update in replayed:
        say("replayed", update=update, why=None, left=[], tensors=[["w", 0.0, 0.1, 0.1, 2.0]])
    if asked is None and update >= max(options["marks"]):
        asked = heard()
    if asked and update == asked["update"]:
        keep(asked)
    time.sleep(0.005)
