"""Pretrain a small Qwen3 on the source code of Python's standard library.

    python train.py --output_dir out --max_steps 500 --learning_rate 1e-3

Takes every flag of transformers' TrainingArguments.
"""

import logging
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

import transformers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)

from dataset import Blocks, read_corpus

logger = logging.getLogger(__name__)


@dataclass
class ModelArguments:
    config_name: str = field(
        default=str(Path(__file__).with_name("qwen3-tiny.json")),
        metadata={"help": "Configuration of the model to train from scratch."},
    )
    attn_implementation: Optional[str] = field(
        default="eager", metadata={"help": "eager, sdpa or flash_attention_2"}
    )


@dataclass
class DataArguments:
    block_size: int = field(default=256, metadata={"help": "Length of a training example."})
    max_bytes: int = field(default=4_000_000, metadata={"help": "Size of the corpus."})
    validation_fraction: float = field(default=0.02)


def main():
    parser = HfArgumentParser((ModelArguments, DataArguments, TrainingArguments))
    model_args, data_args, training_args = parser.parse_args_into_dataclasses()

    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    transformers.utils.logging.set_verbosity_warning()
    set_seed(training_args.seed)

    ids = read_corpus(data_args.max_bytes)
    split = int(len(ids) * (1 - data_args.validation_fraction))
    train_dataset = Blocks(ids[:split], data_args.block_size)
    eval_dataset = Blocks(ids[split:], data_args.block_size)

    config = AutoConfig.from_pretrained(model_args.config_name)
    model = AutoModelForCausalLM.from_config(
        config, attn_implementation=model_args.attn_implementation
    )
    logger.info(
        "%.2fM parameters, %d training examples", model.num_parameters() / 1e6, len(train_dataset)
    )

    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=train_dataset,
        eval_dataset=eval_dataset,
        data_collator=default_data_collator,
    )
    result = trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
    if training_args.save_strategy != "no":
        trainer.save_model()
    trainer.log_metrics("train", result.metrics)

    if training_args.do_eval:
        metrics = trainer.evaluate()
        metrics["perplexity"] = math.exp(metrics["eval_loss"])
        trainer.log_metrics("eval", metrics)


if __name__ == "__main__":
    main()
