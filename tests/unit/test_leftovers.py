"""What a fetch left is kept within bounds, the latest longest."""

import pyarrow as pa

from delta_log.fetch.row_cache import Leftover, RowCache


def left(name: str, rows: int = 100) -> Leftover:
    return Leftover(name, [pa.record_batch({"offset": pa.array(range(rows), pa.int64())})])


def test_what_is_kept_is_found_again_and_again():
    leftovers = RowCache(10_000)
    leftovers.keep("a", left("file"))
    assert leftovers.find("a") == leftovers.find("a") == left("file")
    assert leftovers.find("b") is None


def test_the_least_wanted_goes_first():
    leftovers = RowCache(1600)
    leftovers.keep("a", left("1"))
    leftovers.keep("b", left("2"))
    assert leftovers.find("a") is not None
    leftovers.keep("c", left("3"))
    assert leftovers.find("b") is None
    assert leftovers.find("a") is not None
    assert leftovers.find("c") is not None


def test_the_same_place_is_kept_once():
    leftovers = RowCache(1600)
    for name in "123":
        leftovers.keep("a", left(name))
    leftovers.keep("b", left("4"))
    assert leftovers.find("a") == left("3")
    assert leftovers.find("b") == left("4")


def test_a_slice_counts_with_all_that_it_keeps():
    whole = left("1", 1000).batches[0]
    leftovers = RowCache(7999)
    leftovers.keep("a", Leftover("1", [whole.slice(999)]))
    assert leftovers.find("a") is None
