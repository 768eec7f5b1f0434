"""The commands on experience: bank list, show, recall, export, import, merge, forget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infrarsi.cli.options import AsJson, BankFolder, Where
from infrarsi.cli.saying import draw, print_json, say

bank = typer.Typer(
    help="Experience: what searches have taught, as packs that can be shared and merged in git.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Shipped = Annotated[
    bool, typer.Option("--shipped", help="Those that ship with InfraRSI, not your own.")
]
_Places = Annotated[list[Path], typer.Argument(help="Packs, or folders of packs.")]


def _folder(named: Path | None, *, shipped_ones: bool = False) -> Path:
    from infrarsi.stages.experience.recall import banks_of, folder_of, shipped

    return shipped() if shipped_ones else folder_of(banks_of(named, off=False))


@bank.command("list")
def list_packs(bank: BankFolder = None, shipped: _Shipped = False, as_json: AsJson = False) -> None:
    """List the packs of a bank."""
    from infrarsi.render.bank import bank_table
    from infrarsi.stages.bank import listed

    folder = _folder(bank, shipped_ones=shipped)
    rows = listed(folder, tell=say)
    if as_json:
        print_json(rows)
    elif rows:
        draw(bank_table(rows))
    else:
        print(f"there is no pack in {folder}")


@bank.command()
def show(
    pack: Annotated[str, typer.Argument(help="Its id, the beginning of it, its label or file.")],
    bank: BankFolder = None,
    shipped: _Shipped = False,
    as_json: AsJson = False,
) -> None:
    """Show what a pack says."""
    from infrarsi.render.bank import pack_lines
    from infrarsi.stages.bank import shown

    found = shown(_folder(bank, shipped_ones=shipped), pack)
    if as_json:
        print_json(found)
    else:
        print("\n".join(pack_lines(found.pack, found.atoms)))


@bank.command()
def recall(directory: Where = Path(), bank: BankFolder = None, as_json: AsJson = False) -> None:
    """Say what a search would start from here, and how alike the packs are."""
    from infrarsi.render.bank import recollection_lines
    from infrarsi.stages.bank import recalled
    from infrarsi.stages.experience.recall import Banks
    from infrarsi.stages.workspace import read_workspace

    folder = _folder(bank)
    banks = Banks(folder, is_named=bank is not None)
    found = recalled(read_workspace(directory), banks, tell=say)
    if as_json:
        print_json(found)
    else:
        print("\n".join(recollection_lines(found.sources, found.beliefs)))


@bank.command()
def export(
    directory: Where = Path(),
    output: Annotated[
        Path | None, typer.Option("-o", help="Folder to write to. Without it: print the pack.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="What to call it. Else: as the contract.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a pack of a search's ledger: ratios alone, no paths, no names of machines or users."""
    from infrarsi.bank.packs import pack_text, write_pack
    from infrarsi.stages.bank import exported
    from infrarsi.stages.workspace import read_workspace

    pack = exported(read_workspace(directory), label=label)
    if output is not None:
        say(f"written: {write_pack(output, pack)}")
    if as_json:
        print_json(pack)
    elif output is None:
        print(pack_text(pack), end="")


@bank.command("import")
def import_packs(
    places: Annotated[list[Path] | None, typer.Argument(help="Packs, or folders of packs.")] = None,
    bank: BankFolder = None,
    shipped: _Shipped = False,
    as_json: AsJson = False,
) -> None:
    """Take packs into your bank; what it holds of the same searches is joined with them."""
    from infrarsi.errors import UsageError
    from infrarsi.stages.experience.recall import shipped as shipped_ones

    chosen = [*(places or ()), *([shipped_ones()] if shipped else [])]
    if not chosen:
        raise UsageError("there is nothing to import", hint="name packs, or give --shipped")
    _join(chosen, _folder(bank), as_json=as_json)


@bank.command()
def merge(
    places: _Places,
    output: Annotated[Path, typer.Option("-o", help="Folder that takes the result.")],
    as_json: AsJson = False,
) -> None:
    """Join packs of several people into one folder."""
    _join(places, output, as_json=as_json)


@bank.command()
def forget(
    packs: Annotated[list[str], typer.Argument(help="Ids, beginnings of ids, or labels.")],
    bank: BankFolder = None,
    as_json: AsJson = False,
) -> None:
    """Take packs out of your bank."""
    from infrarsi.stages.bank import forgotten

    gone = forgotten(_folder(bank), packs)
    if as_json:
        print_json([pack.id for pack in gone])
    else:
        print("\n".join(f"forgotten: {pack.label} ({pack.id})" for pack in gone))


def _join(places: list[Path], folder: Path, *, as_json: bool) -> None:
    from infrarsi.stages.bank import joined

    written = joined(places, folder)
    if as_json:
        print_json([pack.id for _, pack in written])
    else:
        for place, pack in written:
            print(f"{place}: {len(pack.lessons)} lessons")
