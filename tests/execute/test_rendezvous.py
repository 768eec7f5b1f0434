"""Each launch meets at a place of its own, whatever the reference command says."""

import socket

import pytest

from infrarsi.execute.rendezvous import free_port, meeting_environment, with_own_meeting_place


@pytest.mark.parametrize(
    ("line", "own"),
    [
        ("torchrun --nproc_per_node=2 t.py", "torchrun --master_port 777 --nproc_per_node=2 t.py"),
        ("torchrun --master_port 29500 t.py --master_port 1",
         "torchrun --master_port 777 t.py --master_port 1"),
        ("torchrun --master-port=29500 --master-addr=node7 t.py",
         "torchrun --master-port=777 --master-addr=127.0.0.1 t.py"),
        ("torchrun --standalone --nproc_per_node=2 t.py",
         "torchrun --standalone --nproc_per_node=2 t.py"),
        ("torchrun --rdzv_backend=c10d --rdzv_endpoint=localhost:0 t.py",
         "torchrun --rdzv_backend=c10d --rdzv_endpoint=localhost:0 t.py"),
        ("torchrun --rdzv-backend c10d --rdzv-endpoint node7:29400 t.py",
         "torchrun --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:777 t.py"),
        ("python -m torch.distributed.run --nproc_per_node=2 -m pkg.t",
         "python -m torch.distributed.run --master_port 777 --nproc_per_node=2 -m pkg.t"),
        ("accelerate launch --num_processes 2 t.py",
         "accelerate launch --main_process_port 777 --num_processes 2 t.py"),
        ("env MASTER_PORT=29500 MASTER_ADDR=node7 X=1 python t.py",
         "env MASTER_PORT=777 MASTER_ADDR=127.0.0.1 X=1 python t.py"),
        ("python t.py --master_port 29500", "python t.py --master_port 29500"),
    ],
)  # fmt: skip
def test_an_uncontained_launch_gets_a_port_of_its_own(line, own):
    assert with_own_meeting_place(line.split(), port=777) == own.split()


def test_a_contained_launch_keeps_its_port_and_meets_on_this_machine():
    line = "torchrun --master_port 29500 --master_addr node7 --nproc_per_node=2 t.py"
    own = "torchrun --master_port 29500 --master_addr 127.0.0.1 --nproc_per_node=2 t.py"
    assert with_own_meeting_place(line.split(), port=None) == own.split()
    endpoint = ["torchrun", "--rdzv_endpoint", "node7:29400", "t.py"]
    assert with_own_meeting_place(endpoint, port=None)[2] == "127.0.0.1:29400"


def test_the_users_own_meeting_place_is_passed_on_as_one_of_this_machine():
    assert meeting_environment({"HOME": "/"}, port=777) == {}
    said = {"MASTER_ADDR": "node7", "MASTER_PORT": "29500"}
    assert meeting_environment(said, port=777) == {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "777"}
    assert meeting_environment(said, port=None)["MASTER_PORT"] == "29500"


def test_a_free_port_is_free():
    with socket.socket() as taker:
        taker.bind(("127.0.0.1", free_port()))
        taker.listen()
