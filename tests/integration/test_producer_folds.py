"""The table of producers is folded by the server itself, whoever else asks for it at the same time."""

from pathlib import Path

from delta_log import Log, ProducerStamp, Record, Settings
from delta_log.delta.parquet import read_file
from delta_log.model.schema import PRODUCERS_SCHEMA


def test_two_folds_at_once_leave_no_request_twice(tmp_path: Path):
    with Log.open(tmp_path, settings=Settings(upkeep=False)) as log:
        log.create_topic("orders")

        def send(number: int) -> list[int]:
            stamp = ProducerStamp("p", 0, number)
            return log.append("orders", [Record(b"%d" % number)], producer=stamp).offsets()

        for number in range(22):
            send(number)
            log.flush("orders")
            log._running.tabler.bring_up(log._running.catalog.producers(create=False))
        upkeep, live = log._running.upkeep, log._running.catalog.producers(create=False)
        store, put = live.table.store, live.table.store.put

        def put_while_another_folds(path, data):
            put(path, data)
            if "__producers" not in path:
                return
            store.put = put
            send(22)
            log._running.tabler.bring_up(live)
            upkeep.run_once()

        store.put = put_while_another_folds
        upkeep.run_once()
        rows = [
            row["sequence"]
            for file in live.table.snapshot.files(-1)
            for row in read_file(store, live.table.path(file.path), PRODUCERS_SCHEMA).to_pylist()
        ]
        assert sorted(rows) == sorted(set(rows))
        assert [send(number) for number in range(18, 23)] == [[number] for number in range(18, 23)]
