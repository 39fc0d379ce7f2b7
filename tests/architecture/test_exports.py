"""What a user of the library may rely on, and what importing it costs."""

import inspect
import subprocess
import sys

import pytest

import lakelog

ROOMS_AND_THEIR_PARTS = (
    "delta_log",
    "consumer_groups",
    "ingest_api",
    "jobs",
    "pyarrow",
    "numpy",
    "fastapi",
    "pyspark",
)


def list_modules_loaded_by(statement: str) -> set[str]:
    script = f"import sys\n{statement}\nprint('\\n'.join(sys.modules), file=sys.stderr)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ended.stderr.split())


def test_the_exported_names_are_these():
    assert sorted(lakelog.__all__) == [
        "Admin",
        "AsyncAdmin",
        "AsyncConsumer",
        "AsyncProducer",
        "AsyncTransaction",
        "Batch",
        "ConfigEntry",
        "Consumer",
        "ConsumerRecord",
        "GroupDescription",
        "GroupListing",
        "GroupMember",
        "GroupMetadata",
        "GroupOffsets",
        "GroupPartition",
        "Header",
        "LakelogError",
        "OffsetAndMetadata",
        "OffsetReset",
        "PartitionOffsets",
        "Producer",
        "RecordFuture",
        "RecordMetadata",
        "TopicDescription",
        "TopicPartition",
        "Transaction",
        "__version__",
        "errors",
    ]


def test_every_exported_name_exists_and_is_listed():
    assert [name for name in lakelog.__all__ if not hasattr(lakelog, name)] == []
    assert set(lakelog.__all__) <= set(dir(lakelog))


def test_a_name_that_is_not_exported_is_not_there():
    with pytest.raises(AttributeError, match="has no attribute 'Broker'"):
        _ = lakelog.Broker


def test_importing_the_library_loads_nothing_else():
    loaded = list_modules_loaded_by("import lakelog")
    assert [name for name in loaded if name.startswith("lakelog.")] == []
    assert loaded.isdisjoint({*ROOMS_AND_THEIR_PARTS, "httpx", "msgspec", "asyncio", "threading"})


@pytest.mark.parametrize("name", ["Producer", "AsyncProducer", "Consumer", "AsyncConsumer", "Admin", "AsyncAdmin"])
def test_a_client_loads_no_room_and_none_of_their_parts(name: str):
    settings = {"bootstrap.servers": "localhost:1"} | ({"group.id": "g"} if "Consumer" in name else {})
    loaded = list_modules_loaded_by(f"import lakelog\nlakelog.{name}({settings!r})")
    assert {"httpx", "msgspec"} <= loaded
    assert loaded.isdisjoint(ROOMS_AND_THEIR_PARTS)
    assert [name for name in loaded if name.startswith("lakelog.cli")] == []


@pytest.mark.parametrize(
    "names", [("Producer", "AsyncProducer"), ("Consumer", "AsyncConsumer"), ("Admin", "AsyncAdmin")]
)
def test_the_clients_for_threads_and_for_tasks_have_the_same_methods(names: tuple[str, str]):
    def methods(cls: type) -> dict[str, list[tuple[str, object, object]]]:
        return {
            name: [(each.name, each.kind, each.default) for each in inspect.signature(member).parameters.values()]
            for name, member in vars(cls).items()
            if inspect.isfunction(member) and not name.startswith("_")
        }

    for_threads, for_tasks = (methods(getattr(lakelog, name)) for name in names)
    assert for_threads == for_tasks


def test_help_loads_no_command_and_no_room():
    loaded = list_modules_loaded_by("from lakelog.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass")
    parts = {name.split(".")[2] for name in loaded if name.startswith("lakelog.cli.")}
    assert parts == {"main", "commands", "kit"}
    assert loaded.isdisjoint(ROOMS_AND_THEIR_PARTS)
