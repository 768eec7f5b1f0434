"""The settings of a training: a YAML file, and key=value pairs that win over it."""

from dataclasses import dataclass, field, fields
from pathlib import Path

import yaml


@dataclass
class ModelSettings:
    vocab_size: int = 256
    dim: int = 64
    n_layers: int = 4
    n_heads: int = 4
    n_experts: int = 16
    top_k: int = 2
    expert_hidden: int = 96
    rope_base: float = 10000.0
    aux_loss_weight: float = 0.01


@dataclass
class DataSettings:
    dir: str = "data"
    max_bytes: int = 8_000_000
    seq_len: int = 128


@dataclass
class TrainSettings:
    steps: int = 400
    micro_batch_size: int = 2
    grad_accum_steps: int = 2
    lr: float = 1e-3
    warmup_steps: int = 20
    weight_decay: float = 0.1
    grad_clip: float = 1.0
    dtype: str = "float32"
    seed: int = 42
    log_every: int = 10
    eval_every: int = 0
    eval_batches: int = 8
    checkpoint: str | None = None


@dataclass
class Settings:
    model: ModelSettings = field(default_factory=ModelSettings)
    data: DataSettings = field(default_factory=DataSettings)
    train: TrainSettings = field(default_factory=TrainSettings)


def load_settings(path, overrides=()):
    """Read a YAML file and apply overrides like ``train.lr=0.0005``."""
    raw = yaml.safe_load(Path(path).read_text()) or {}
    for override in overrides:
        key, equals, value = override.partition("=")
        section, dot, name = key.partition(".")
        if not equals or not dot:
            raise SystemExit(f"cannot read {override!r}: write section.key=value")
        raw.setdefault(section, {})[name] = yaml.safe_load(value)
    settings = Settings()
    for section, values in raw.items():
        if not hasattr(settings, section):
            raise SystemExit(f"there is no section {section!r}")
        part = getattr(settings, section)
        known = {each.name for each in fields(part)}
        for name, value in values.items():
            if name not in known:
                raise SystemExit(f"there is no setting {section}.{name}")
            setattr(part, name, value)
    return settings
