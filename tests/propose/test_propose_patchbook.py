from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import yaml

from infrarsi.edits import apply_edits, combine, incompatible_pairs
from infrarsi.errors import UsageError
from infrarsi.propose.imports import reachable_files
from infrarsi.propose.patchbook import default_book, propose_patches, read_recipe
from infrarsi.records.task import Numerics

PROGRAM = b"""\
import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(50, 8)
        self.qkv = nn.Linear(8, 24)
        self.head = nn.Linear(8, 50)

    def forward(self, ids):
        x = self.emb(ids)
        q, k, v = self.qkv(x).chunk(3, -1)
        n = ids.shape[1]
        mask = torch.tril(torch.ones(n, n, device=ids.device))
        att = q @ k.transpose(-2, -1) / 8**0.5
        att = att.masked_fill(mask == 0, float("-inf"))
        x = x + F.softmax(att, dim=-1) @ v
        return self.head(x)


def main(updates=5):
    torch.manual_seed(0)
    model = Net()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    seen = []
    for step in range(updates):
        ids = torch.randint(50, (2, 12))
        opt.zero_grad()
        logits = model(ids)
        loss = F.cross_entropy(logits.view(-1, 50), ids.view(-1))
        loss.backward()
        opt.step()
        seen.append(loss.item())
    return seen
"""


def _recipe(folder: Path, name: str, codemod: str, **fields: object) -> None:
    place = folder / name
    place.mkdir()
    said = {"name": name, "summary": "s", "applies_when": "w", **fields}
    (place / "recipe.yaml").write_text(yaml.safe_dump(said))
    (place / "codemod.py").write_text(textwrap.dedent(codemod))


def test_every_shipped_recipe_can_be_read_and_says_what_it_does():
    folders = [path.parent for path in default_book().glob("*/recipe.yaml")]
    names = {read_recipe(folder).name for folder in folders}
    assert {"sdpa", "chunked_loss", "fused_optimizer", "fewer_syncs", "compile_model", "autocast",
            "no_recompute", "cached_mask", "cached_rotary", "clip_foreach"} <= names  # fmt: skip
    for folder in folders:
        assert set(read_recipe(folder).conflicts) <= names


def test_the_book_proposes_patches_that_apply_together_and_train_the_same(module):
    files = {"train.py": PROGRAM}
    proposals = propose_patches(files, numerics=Numerics(), book=default_book())
    names = {patch.name for patch in proposals.patches}
    assert {"sdpa", "fused_optimizer", "chunked_loss", "compile_model", "fewer_syncs"} <= names
    assert all(patch.proposer == "patchbook" for patch in proposals.patches)
    wanted = [patch for patch in proposals.patches if patch.name != "compile_model"]
    # SDPA takes the mask out that the other would cache, and both may define the same helper.
    assert set(incompatible_pairs(files, wanted)) <= {("cached_mask", "sdpa")}
    wanted = [patch for patch in wanted if patch.name != "cached_mask"]
    assert len(wanted) >= 4
    merged = combine(files, wanted)["train.py"].decode()
    before = module(PROGRAM.decode()).main()
    assert module(merged).main() == pytest.approx(before, rel=1e-5)


def test_a_precision_that_the_contract_does_not_allow_is_declined():
    files = {"train.py": PROGRAM}
    strict = propose_patches(files, numerics=Numerics(), book=default_book())
    reasons = {each.recipe: each.because for each in strict.declined}
    assert "does not allow bfloat16" in reasons["autocast"]
    loose = propose_patches(
        files, numerics=Numerics(matmul=("float32", "bfloat16")), book=default_book()
    )
    (patch,) = [patch for patch in loose.patches if patch.name == "autocast"]
    assert patch.precision == "bfloat16"


@pytest.mark.parametrize("content", [
    b"\xef\xbb\xbf" + PROGRAM.replace(b"\n", b"\r\n"),
    PROGRAM.rstrip(b"\n"),
    PROGRAM.replace(b"    ", b"\t"),
])  # fmt: skip
def test_line_ends_marks_and_tabs_are_kept(content: bytes):
    files = {"train.py": content}
    proposals = propose_patches(files, numerics=Numerics(), book=default_book())
    assert {"sdpa", "fused_optimizer"} <= {patch.name for patch in proposals.patches}
    for patch in proposals.patches:
        after = apply_edits(files, patch.edits)["train.py"]
        assert after.startswith(b"\xef\xbb\xbf") == content.startswith(b"\xef\xbb\xbf")
        assert (b"\r\n" in after) == (b"\r\n" in content)
        assert after.count(b"\n") == after.count(b"\r\n") or b"\r\n" not in content
        assert after.endswith(b"\n") == content.endswith(b"\n")
        assert (b"\t" in after) == (b"\t" in content)


def test_what_is_not_editable_is_read_but_not_changed():
    proposals = propose_patches(
        {"other.py": b"x = 1\n"},
        numerics=Numerics(),
        book=default_book(),
        readonly={"train.py": PROGRAM},
    )
    assert proposals.patches == ()
    reasons = {each.recipe: each.because for each in proposals.declined}
    assert reasons["sdpa"] == "it would have to change train.py, which is not editable"


@pytest.mark.parametrize(
    "content",
    [b"print 'python two'\n", b"x = '\xe9'\n", b"def broken(:\n", b"", b"\x00", b"# nothing\n"],
)
def test_strange_files_are_declined_and_never_crash(content: bytes):
    proposals = propose_patches({"a.py": content}, numerics=Numerics(), book=default_book())
    assert proposals.patches == ()
    assert all(each.because for each in proposals.declined)


def test_a_strange_file_does_not_hide_the_others():
    files = {"old.py": b"print 'python two'\n", "train.py": PROGRAM}
    proposals = propose_patches(files, numerics=Numerics(), book=default_book())
    assert "sdpa" in {patch.name for patch in proposals.patches}


def test_only_what_the_entry_imports_is_looked_at():
    files = {
        "train.py": PROGRAM + b"\nimport pkg.part\nexec(open('config.py').read())\n",
        "pkg/part.py": b"from . import deep\n",
        "pkg/deep.py": b"x = 1\n",
        "pkg/__init__.py": b"",
        "config.py": b"lr = 1\n",
        "bench.py": b"import torch\nmodel = torch.compile(model)\n",
    }
    texts = {path: content.decode() for path, content in files.items()}
    assert reachable_files(texts, "train.py") == set(files) - {"bench.py"}
    everything = propose_patches(files, numerics=Numerics(), book=default_book())
    assert "compile_model" in {each.recipe for each in everything.declined}
    proposals = propose_patches(files, numerics=Numerics(), book=default_book(), entry="train.py")
    assert "compile_model" in {patch.name for patch in proposals.patches}


def test_a_codemod_that_fails_costs_one_idea(tmp_path):
    _recipe(tmp_path, "breaks", "def transform(sources):\n    return {}['x']\n")
    _recipe(tmp_path, "garbles", "def transform(sources):\n    return {'a.py': 'def ('}\n")
    _recipe(tmp_path, "idle", "def transform(sources):\n    return dict(sources)\n")
    _recipe(tmp_path, "works", "def transform(sources):\n    return {'a.py': 'x = 2\\n'}\n")
    proposals = propose_patches({"a.py": b"x = 1\n"}, numerics=Numerics(), book=tmp_path)
    reasons = {each.recipe: each.because for each in proposals.declined}
    assert "KeyError" in reasons["breaks"]
    assert "not valid Python" in reasons["garbles"]
    assert "shape" in reasons["idle"]
    assert [patch.name for patch in proposals.patches] == ["works"]


def test_a_recipe_that_says_too_much_is_refused(tmp_path):
    _recipe(tmp_path, "odd", "", speedup=3)
    with pytest.raises(UsageError, match="speedup"):
        propose_patches({"a.py": b""}, numerics=Numerics(), book=tmp_path)


def test_an_empty_book_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no recipe"):
        propose_patches({"a.py": b""}, numerics=Numerics(), book=tmp_path)
