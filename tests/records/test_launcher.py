"""The options of a launcher are not the script's, whatever launches it."""

import shlex

import pytest

from infrarsi.records.launcher import read_command


@pytest.mark.parametrize(
    ("line", "entry", "arguments"),
    [
        ("python train.py --lr 1", "train.py", ("--lr", "1")),
        ("python -u -X dev train.py a", "train.py", ("a",)),
        ("python -m pkg.train --lr 1", "pkg/train.py", ("--lr", "1")),
        ("torchrun train.py", "train.py", ()),
        ("torchrun --standalone --nproc_per_node=2 train.py --steps 3", "train.py", ("--steps", "3")),
        ("torchrun --nproc-per-node 2 --nnodes 1 src/run --lr 1", "src/run", ("--lr", "1")),
        ("torchrun --nproc_per_node 2 -m pkg.train --lr 1", "pkg/train.py", ("--lr", "1")),
        ("torchrun --module --nproc_per_node=2 pkg.train", "pkg/train.py", ()),
        ("/opt/env/bin/torchrun --rdzv-endpoint localhost:0 a.py b.py", "a.py", ("b.py",)),
        ("python -m torch.distributed.run --nproc_per_node=2 -m pkg.train x", "pkg/train.py", ("x",)),
        ("python3.11 -m torch.distributed.launch --use_env --nproc_per_node=2 t.py", "t.py", ()),
        ("env OMP_NUM_THREADS=1 torchrun --nproc_per_node=2 t.py -x", "t.py", ("-x",)),
        ("accelerate launch --num_processes 2 --mixed_precision bf16 t.py --mixed_precision no",
         "t.py", ("--mixed_precision", "no")),
        ("accelerate launch --config_file a.yaml --multi_gpu t.py", "t.py", ()),
        ("accelerate launch --an_option_of_tomorrow t.py --x", "t.py", ("--x",)),
        ("deepspeed --num_gpus=2 t.py --deepspeed ds.json", "t.py", ("--deepspeed", "ds.json")),
        ("numactl --cpunodebind 0 python t.py", "t.py", ()),
        ("./launch.sh a", None, ("./launch.sh", "a")),
        ("python -c 'print(1)' a", None, ("python", "-c", "print(1)", "a")),
    ],
)  # fmt: skip
def test_the_script_and_its_own_arguments_are_found(line, entry, arguments):
    command = read_command(shlex.split(line))
    assert command.entry == entry
    assert command.arguments == arguments


@pytest.mark.parametrize(
    ("line", "machines"),
    [
        ("torchrun --nnodes=2 --nproc_per_node=8 t.py", 2),
        ("torchrun --nnodes 1:4 t.py", 4),
        ("torchrun --standalone t.py --nnodes 9", 1),
        ("accelerate launch --num_machines 3 t.py", 3),
        ("deepspeed --num_nodes=2 t.py", 2),
        ("torchrun --nnodes=$NODES t.py", 1),
        ("python t.py --nnodes 2", 1),
    ],
)
def test_the_number_of_machines_is_the_launchers(line, machines):
    assert read_command(line.split()).num_machines == machines
