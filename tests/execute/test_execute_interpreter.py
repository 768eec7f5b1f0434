"""The training interpreter is asked what it is, and told what is wrong with it."""

import json
import platform
import struct
import sys
import venv
from pathlib import Path

import pytest

from infrarsi.errors import ReferenceFailedError
from infrarsi.execute.interpreter import Interpreter, look, require_training
from infrarsi.execute.machine import fingerprint
from infrarsi.execute.sandbox import Tier

TORCH = """
class version: cuda = None
class cuda:
    @staticmethod
    def is_available(): return False
"""


@pytest.fixture
def environment(tmp_path):
    """An environment without any package."""
    venv.create(tmp_path / "mein venv ü", symlinks=True)
    return tmp_path / "mein venv ü"


def packages(environment):
    return next((environment / "lib").glob("python3*/site-packages"))


def install_torch(environment, version, source=""):
    place = packages(environment) / "torch"
    place.mkdir()
    (place / "version.py").write_text(f"__version__ = '{version}'\n")
    (place / "__init__.py").write_text(f"from .version import __version__\n{source}{TORCH}")


def program(place, text):
    place.write_text(text)
    place.chmod(0o755)
    return place


def refused(call):
    with pytest.raises(ReferenceFailedError) as caught:
        call()
    assert caught.value.hint
    return str(caught.value)


def test_it_says_what_it_is_without_importing_torch(environment):
    install_torch(environment, "2.4.1+cu121", "raise RuntimeError('imported')\n")
    found = look(environment / "bin" / "python")
    assert found.executable == environment / "bin" / "python"
    assert found.version == platform.python_version()
    assert found.prefix == environment
    assert found.base_prefix == Path(sys.base_prefix)
    assert found.torch == "2.4.1+cu121"
    assert "torch 2.4.1+cu121" in found.in_words()


def test_no_torch_and_torch_too_old_are_told(environment, tmp_path):
    said = refused(lambda: require_training(look(environment / "bin" / "python")))
    assert "has no torch" in said
    venv.create(tmp_path / "old", symlinks=True)
    install_torch(tmp_path / "old", "2.1.2")
    said = refused(lambda: require_training(look(tmp_path / "old" / "bin" / "python")))
    assert "has torch 2.1.2" in said


def test_a_torch_folder_that_is_no_package_is_no_torch(environment):
    (packages(environment) / "torch").mkdir()
    assert look(environment / "bin" / "python").torch is None


def test_an_old_python_is_told(tmp_path):
    answer = {"version": "3.8.18", "executable": "/opt/py38/bin/python", "prefix": "/opt/py38",
              "base_prefix": "/opt/py38", "torch": "2.2.0", "linked": [], "search_path": []}  # fmt: skip
    old = program(tmp_path / "python", f"#!/bin/sh\necho 'infrarsi-says:{json.dumps(answer)}'\n")
    assert "is Python 3.8.18" in refused(lambda: require_training(look(old)))


def test_what_is_asked_is_parsed_by_a_python_that_is_too_old():
    from infrarsi.execute import interpreter

    compiled = compile(interpreter.ASKING + interpreter._LOOK, "asked", "exec")
    assert compiled.co_filename == "asked"
    for modern in ('f"', "f'", "print(", ":=", "nonlocal"):
        assert modern not in interpreter.ASKING + interpreter._LOOK


def test_what_is_no_python_is_told():
    assert "/bin/ls is no Python interpreter" in refused(lambda: look(Path("/bin/ls")))
    assert "/bin/true is no Python interpreter" in refused(lambda: look(Path("/bin/true")))


def test_another_architecture_is_told(tmp_path):
    machine = 0xB7 if platform.machine() != "aarch64" else 0x3E
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHI", 2, machine, 1) + bytes(40)
    (tmp_path / "python").write_bytes(header)
    (tmp_path / "python").chmod(0o755)
    said = refused(lambda: look(tmp_path / "python"))
    assert f"and this machine is {platform.machine()}" in said
    assert "built for aarch64" in said or "built for x86_64" in said


def test_text_that_is_no_program_is_told(tmp_path):
    said = refused(lambda: look(program(tmp_path / "python", "hello\n")))
    assert "it is no program that this machine can run" in said


def test_a_program_that_may_not_be_executed_is_told(tmp_path):
    (tmp_path / "python").write_text("#!/bin/sh\n")
    assert "it may not be executed" in refused(lambda: look(tmp_path / "python"))


def test_a_shebang_to_nowhere_is_told(tmp_path):
    gone = program(tmp_path / "python", "#!/nowhere/python\n")
    assert "its shebang or its C library" in refused(lambda: look(gone))


def test_a_python_whose_library_is_gone_is_told(tmp_path):
    words = "Fatal Python error: init_fs_encoding\nModuleNotFoundError: No module named 'encodings'"
    broken = program(tmp_path / "python", f'#!/bin/sh\necho "{words}" >&2\nexit 1\n')
    assert "No module named 'encodings'" in refused(lambda: look(broken))


def test_a_shim_is_seen_through(environment, tmp_path):
    python = environment / "bin" / "python"
    shim = program(tmp_path / "shim", f'#!/bin/sh\nexec "{python}" "$@"\n')
    assert look(shim).executable == python


def test_a_repository_that_has_modules_of_the_same_names_is_no_matter(environment, tmp_path):
    for name in ("platform", "json", "re", "os"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('not this one')\n")
    assert look(environment / "bin" / "python", folder=tmp_path).prefix == environment


def test_the_fingerprint_survives_noise_and_is_taken_once(environment, tmp_path):
    noise = (
        "import sys, warnings\n"
        "print('infrarsi is mentioned')\n"
        "warnings.warn('Failed to initialize NumPy')\n"
        "import atexit; atexit.register(print, 'good bye')\n"
        f"open({str(tmp_path / 'imports')!r}, 'a').write('x')\n"
    )
    install_torch(environment, "2.9.0", noise)
    machines = [fingerprint(str(environment / "bin" / "python"), Tier.PROCESS_GROUP)] * 2
    machines.append(fingerprint(str(environment / "bin" / "python"), Tier.PROCESS_GROUP))
    assert machines[0] == machines[2]
    assert machines[0].torch == "2.9.0"
    assert machines[0].python == platform.python_version()
    assert (tmp_path / "imports").read_text() == "x"


def test_a_torch_that_does_not_import_is_told_with_its_reason(environment):
    install_torch(environment, "2.9.0", "raise ImportError('libcudnn.so.9: cannot open')\n")
    said = refused(lambda: fingerprint(str(environment / "bin" / "python"), Tier.PROCESS_GROUP))
    assert "libcudnn.so.9: cannot open" in said


def test_all_that_it_imports_from_is_readable_but_what_a_trial_has_of_its_own(
    environment, tmp_path
):
    root, other, editable = tmp_path / "root", tmp_path / "other", tmp_path / "mein editable"
    for each in (root / "src", other, editable):
        each.mkdir(parents=True)
    site = packages(environment)
    (site / "linked.pth").write_text(f"{other}\n{root / 'src'}\n{tmp_path / 'absent'}\n")
    (site / "symlinked").symlink_to(other)
    info = site / "thing-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
    origin = {"url": editable.as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(origin))
    found = look(environment / "bin" / "python")
    assert {other, root / "src", editable} <= set(found.sources)
    readable = set(found.readable(root))
    assert {environment, Path(sys.base_prefix), other, editable} <= readable
    assert not {root, root / "src", tmp_path / "absent", Path("/")} & readable


def test_every_link_on_the_way_to_the_program_can_be_followed(environment, tmp_path):
    first, second = tmp_path / "a" / "bin", tmp_path / "b" / "bin"
    first.mkdir(parents=True)
    second.mkdir(parents=True)
    (second / "python").symlink_to(Path(sys.executable).resolve())
    (first / "python").symlink_to("../../b/bin/python")
    found = Interpreter(
        executable=first / "python", version="3.11.0", prefix=tmp_path / "a",
        base_prefix=Path(sys.base_prefix), torch=None,
    )  # fmt: skip
    assert {tmp_path / "a", tmp_path / "b"} <= set(found.readable(tmp_path / "root"))


def at(prefix, base=None):
    return Interpreter(executable=prefix / "bin" / "python", version="3.12.1", prefix=prefix,
                       base_prefix=base or prefix, torch="2.5.0")  # fmt: skip


def test_its_environment_is_the_active_one_inside_a_trial(tmp_path):
    conda, named, made = tmp_path / "conda", tmp_path / "conda" / "envs" / "llm", tmp_path / "made"
    for each in (conda, named):
        (each / "conda-meta").mkdir(parents=True)
        (each / "bin").mkdir()
    (conda / "condabin").mkdir()
    made.mkdir()
    env, away = at(named).environment({"PATH": "/usr/bin"})
    assert env == {"PATH": f"{named / 'bin'}:/usr/bin", "CONDA_PREFIX": str(named),
                   "CONDA_DEFAULT_ENV": "llm"}  # fmt: skip
    assert away == ("VIRTUAL_ENV",)
    env, away = at(conda).environment({})
    assert env["CONDA_DEFAULT_ENV"] == "base"
    assert env["PATH"].startswith(f"{conda / 'bin'}:/")
    env, away = at(made, conda).environment({"PATH": "/usr/bin"})
    assert env["VIRTUAL_ENV"] == str(made)
    assert env["CONDA_PREFIX"] == str(conda)
    assert away == ()
    env, away = at(tmp_path).environment({"PATH": "/usr/bin"})
    assert set(env) == {"PATH"}
    assert set(away) == {"VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"}
