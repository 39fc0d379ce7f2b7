"""What a user of the library may rely on, and what importing it costs."""

import subprocess
import sys

import lakelog

ROOMS_AND_THEIR_PARTS = (
    "delta_log",
    "consumer_groups",
    "ingest_api",
    "jobs",
    "pyarrow",
    "fastapi",
    "pyspark",
)


def list_modules_loaded_by(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ended.stderr.split())


def test_the_exported_names_are_these():
    assert sorted(lakelog.__all__) == ["__version__"]


def test_every_exported_name_exists():
    assert [name for name in lakelog.__all__ if not hasattr(lakelog, name)] == []


def test_importing_the_library_loads_no_room():
    assert list_modules_loaded_by("import lakelog").isdisjoint(ROOMS_AND_THEIR_PARTS)


def test_help_loads_no_command_and_no_room():
    loaded = list_modules_loaded_by("from lakelog.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass")
    assert "lakelog.commands" in loaded
    assert [name for name in loaded if name.startswith("lakelog.commands.")] == []
    assert loaded.isdisjoint(ROOMS_AND_THEIR_PARTS)
