"""A bucket behind a network that loses, cuts and delays: what is said of each write is true."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from delta_log.delta.conflicts import Kind
from delta_log.delta.table import Table
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.model.errors import NotARoot, OutcomeUnknown, StorageRefused
from delta_log.root.root import as_root, open_root
from delta_log.stores import objects
from delta_log.stores.object_reading import PIECE
from delta_log.stores.objects import ObjectStore
from tests.support.s3_server import BUCKET, S3Server, options_for
from tests.support.store_proxy import StoreFault, StoreProxy
from tests.support.tables import NAME, a_file, append, first_commit, info, metadata

#: Of who is to give up, which has to be soon.
PATIENCE_S = 0.4
#: Of who is to come to an end, also on a machine that stands still.
LONG_S = 60.0


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[StoreProxy]:
    with StoreProxy(s3_server.address) as made:
        yield made


@pytest.fixture
def root(s3_server: S3Server) -> str:
    return s3_server.root(uuid.uuid4().hex)


@pytest.fixture
def direct(s3_server: S3Server, root: str) -> ObjectStore:
    return ObjectStore(root, s3_server.options)


@pytest.fixture
def store(proxy: StoreProxy, root: str) -> ObjectStore:
    return ObjectStore(root, options_for(proxy.url), patience_s=PATIENCE_S)


@pytest.fixture
def patient(proxy: StoreProxy, root: str) -> ObjectStore:
    """Waits two seconds for an answer, and asks again for long."""
    return ObjectStore(root, options_for(proxy.url) | {"timeout": "2s"}, patience_s=LONG_S)


ONCE = ["lose the answer", "cut the request", "cut the answer", "503", "503 afterwards"]


@pytest.mark.parametrize("what", ONCE)
def test_a_creation_that_trouble_befell_once_is_made_once_and_known_to_be(
    patient: ObjectStore, direct: ObjectStore, proxy: StoreProxy, what: str
):
    proxy.faults = [StoreFault(what, method="PUT", times=1)]
    assert patient.create("a", b"ours")
    assert direct.read("a") == b"ours"
    assert proxy.happened[what] == 1


@pytest.mark.parametrize("what", [*ONCE, "hang"])
def test_a_name_that_somebody_has_is_never_said_to_be_ours(
    patient: ObjectStore, direct: ObjectStore, proxy: StoreProxy, what: str
):
    direct.create("a", b"theirs")
    proxy.faults = [StoreFault(what, method="PUT", times=1)]
    assert not patient.create("a", b"ours")
    assert direct.read("a") == b"theirs"


@pytest.mark.parametrize(("what", "there"), [("lose the answer", True), ("503 afterwards", True), ("503", False)])
def test_where_nothing_is_answered_for_long_what_is_there_tells(
    store: ObjectStore, direct: ObjectStore, proxy: StoreProxy, what: str, there: bool
):
    proxy.faults = [StoreFault(what, method="PUT")]
    if there:
        assert store.create("a", b"ours")
        assert direct.read("a") == b"ours"
    else:
        with pytest.raises(OutcomeUnknown, match="503"):
            store.create("a", b"ours")


def test_where_nothing_tells_it_is_said_to_be_unknown(store: ObjectStore, direct: ObjectStore, proxy: StoreProxy):
    proxy.faults = [StoreFault("lose the answer")]
    with pytest.raises(OutcomeUnknown):
        store.create("a", b"ours")
    assert direct.read("a") == b"ours"
    with pytest.raises(OutcomeUnknown):
        store.put("b", b"ours")
    with pytest.raises(OutcomeUnknown):
        store.delete("a")


def test_a_store_that_cannot_be_reached_surely_stored_nothing(store: ObjectStore, proxy: StoreProxy, root: str):
    gone = ObjectStore(root, options_for("http://127.0.0.1:1"), patience_s=PATIENCE_S)
    with pytest.raises(StorageRefused, match=r"it cannot be reached at http://127\.0\.0\.1:1"):
        gone.create("a", b"ours")


@pytest.mark.parametrize("what", ["lose the answer", "cut the answer", "503"])
def test_what_is_safe_is_asked_for_again(patient: ObjectStore, direct: ObjectStore, proxy: StoreProxy, what: str):
    direct.put("d/a", b"x" * 100_000)
    for ask in (
        lambda: patient.read("d/a"),
        lambda: patient.stat("d/a"),
        lambda: patient.list("d"),
        lambda: patient.put("d/b", b"y"),
        lambda: patient.delete("d/b"),
    ):
        proxy.faults = [StoreFault(what, times=1)]
        ask()
    assert direct.read("d/a") == patient.read("d/a")
    assert proxy.happened[what] == 5


def test_half_an_answer_is_never_taken_for_the_whole(store: ObjectStore, direct: ObjectStore, proxy: StoreProxy):
    direct.put("a", b"x" * 500_000)
    proxy.faults = [StoreFault("cut the answer", method="GET")]
    with pytest.raises(StorageRefused):
        store.read("a")


def test_a_large_blob_goes_up_in_parts_and_is_read_by_ranges(store: ObjectStore, proxy: StoreProxy):
    parts = [bytes([number]) * 5_000_000 for number in range(5)]
    assert store.put_parts("large", iter(parts)) == 25_000_000
    assert sum("partNumber=" in line for line in proxy.requests) > 2
    whole = b"".join(parts)
    with store.open_input("large") as source:
        assert source.size() == len(whole)
        before = len(proxy.requests)
        assert source.read_at(10, 20_000_000) == whole[20_000_000:20_000_010]
        assert source.read_at(100, 20_000_000 + PIECE - 200) == whole[20_000_000 + PIECE - 200 :][:100]
        assert len(proxy.requests) == before + 1
        assert source.read_at(100, len(whole) - 50) == whole[-50:]
        store.put("large", b"another" * PIECE)
        with pytest.raises(FileNotFoundError):
            source.read_at(10, 10_000_000)


def test_what_a_person_is_told_names_the_cause(s3_server: S3Server, root: str):
    denied = ObjectStore(root, s3_server.options | {"aws_secret_access_key": "wrong"})
    with pytest.raises(StorageRefused, match=r"access is denied \(SignatureDoesNotMatch") as raised:
        denied.create("a", b"x")
    assert "wrong" not in str(raised.value)
    absent = as_root("s3://no-such-bucket/log", store_options=s3_server.options)
    with pytest.raises(StorageRefused, match="there is no bucket 'no-such-bucket'"):
        open_root(absent, create=True)
    with pytest.raises(NotARoot, match="nonsense"):
        as_root(f"s3://{BUCKET}/x", store_options={"nonsense": "secret"})
    with pytest.raises(NotARoot, match="names no bucket"):
        as_root("s3://")


def test_options_come_from_the_environment_too(s3_server: S3Server, root: str, monkeypatch: pytest.MonkeyPatch):
    for name, value in s3_server.options.items():
        monkeypatch.setenv(name.upper(), value)
    store = ObjectStore(root)
    assert store.create("a", b"x")
    assert store.location.options == {}


@pytest.mark.parametrize("how", ["at once", "in parts"])
def test_a_large_object_goes_up_by_four_parts_at_a_time(direct: ObjectStore, proxy: StoreProxy, root: str, how: str):
    """So a few of its parts are in memory, however large it is, and its store is not flooded."""
    store, whole = ObjectStore(root, options_for(proxy.url)), bytes(12 * objects._PART)
    proxy.delay_s = 0.2
    if how == "at once":
        store.put("large", whole)
    else:
        store.put_parts("large", (whole[at : at + 1_000_000] for at in range(0, len(whole), 1_000_000)))
    assert 2 <= proxy.most_at_once <= 4
    assert direct.read("large") == whole


def test_a_table_that_goes_is_one_that_can_be_loaded_until_it_is_gone(
    direct: ObjectStore, monkeypatch: pytest.MonkeyPatch
):
    """Nothing deletes a whole directory at once: whoever dies in the middle leaves a deleted table, or none."""
    monkeypatch.setattr(objects, "_DELETED_AT_ONCE", 1)
    table = Table(direct, NAME, epoch=1)
    table.commit(Kind.APPEND, lambda _: first_commit())
    for base in range(3):
        table.commit(Kind.APPEND, lambda _, base=base: append(a_file(base)))
    table.commit(Kind.CONFIG, lambda _: [info(), metadata(lakelog_deleted_ms="5")])
    write_checkpoint(table)
    for path in sorted(table.snapshot.files(0), key=lambda each: each.path):
        direct.put(f"{NAME}/{path.path}", b"x")
    newest, seen = table.snapshot.version, []

    class Dying(ObjectStore):
        def _delete(self, paths):
            other = Table(direct, NAME)
            seen.append(other.load())
            assert not seen[-1] or (other.snapshot.version, "lakelog.deleted.ms" in other.snapshot.configuration) == (
                newest,
                True,
            )
            super()._delete(paths)

    Dying(direct.location, direct.location.options).delete_directory(NAME)
    assert seen[0]
    assert len(seen) > newest + 3
    assert direct.list(NAME) == []
