"""What README.md tells a newcomer to type works as it is written, in order, in a fresh copy of the project."""

import shutil
from pathlib import Path

import pytest

from tests.architecture.project_files import ROOT, list_files
from tests.support.marked_blocks import find_blocks, run_block, run_blocks

# More than this is no first page.
MOST_LINES = 110


@pytest.fixture
def copy_of_the_project(tmp_path: Path) -> Path:
    for path in list_files():
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    return tmp_path


@pytest.mark.timeout(600)
def test_every_block_that_is_marked_runs(copy_of_the_project: Path):
    blocks = find_blocks((ROOT / "README.md").read_text())
    assert blocks, "README.md marks no block with <!-- runs -->"
    produced, by_sql, by_spark, by_group, by_library, _ = run_blocks(blocks, copy_of_the_project)
    for printed in (produced, by_sql, by_spark, by_group, by_library):
        assert '"who": "alice"' in printed.replace("\\", ""), printed
    assert not (copy_of_the_project / "lakelog-data").exists(), "README.md leaves its data behind"


def test_it_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= MOST_LINES


def test_a_block_that_fails_is_named_by_its_line(tmp_path: Path):
    (block,) = find_blocks("# title\n\n<!-- runs -->\n```sh\nfalse\ntrue\n```\n\n```sh\nnot run\n```\n")
    with pytest.raises(AssertionError, match=r"README.md:5 ended with 1"):
        run_block(block, tmp_path)


def test_python_blocks_run_too(tmp_path: Path):
    (block,) = find_blocks("<!-- runs -->\n```python\nimport lakelog\nprint(lakelog.__name__)\n```\n")
    assert run_block(block, tmp_path) == "lakelog\n"


def test_a_server_that_does_not_start_is_named_by_its_line(tmp_path: Path):
    blocks = find_blocks("<!-- serves -->\n```sh\necho never ready\n```\n")
    with pytest.raises(AssertionError, match=r"README.md:3 did not serve\nnever ready"):
        run_blocks(blocks, tmp_path)


def test_a_server_is_there_until_ctrl_c_and_not_longer(tmp_path: Path):
    program = "import signal, sys\nprint('listens on http://127.0.0.1:7\\nready')\nsys.stdout.flush()\n"
    program += "try:\n    signal.pause()\nexcept KeyboardInterrupt:\n    print('bringing everything into the tables')\n"
    program += "    open('stopped', 'w').close()\n"
    document = f"<!-- serves -->\n```python\n{program}```\n"
    document += "<!-- runs -->\n```sh\n! test -e stopped\necho 127.0.0.1:8082 > port\n```\n"
    document += "<!-- Ctrl-C -->\n\n<!-- runs -->\n```sh\ntest -e stopped\n```\n"
    run_blocks(find_blocks(document), tmp_path)
    assert (tmp_path / "port").read_text() == "127.0.0.1:7\n"
