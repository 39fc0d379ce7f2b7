"""Every law of the log is tried on a disk, in memory and in a bucket; nothing that a test starts may outlive it.

The laws of `TRIED_BEHIND_TROUBLE` are tried in a bucket behind a bad network, too: nothing of that may be noticed where
an owner is as patient as he is by default. LAKELOG_BAD_NETWORK=1 for all of the laws, which takes long; LAKELOG_AZURE=1
for all of them in a container of Azure's emulator.
"""

import os
import random
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import pytest

from consumer_groups.coordinator import coordinator
from consumer_groups.decisions import decision_weight as weight
from delta_log import Log
from delta_log.stores.objects import ObjectStore
from tests.support.azure_server import WANTED as AZURE_TOO
from tests.support.azure_server import AzureServer
from tests.support.logs import Place, no_thread_left
from tests.support.s3_server import S3Server, options_for
from tests.support.store_proxy import TROUBLE, StoreProxy

PLACES = ("local", "memory", "s3", *(["az"] if AZURE_TOO else []))
BAD = "s3 behind a bad network"
TRIED_BEHIND_TROUBLE = ("test_log_append",)
#: With every decision of a group made aside, as large ones are.
ASIDE = "groups aside"
TRIED_ASIDE = ("test_groups_polling", "test_groups_keeping", "test_groups_dead_letters", "test_groups_ledger")
EVERYTHING = os.environ.get("LAKELOG_BAD_NETWORK") == "1"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames:
        module = metafunc.module.__name__.rpartition(".")[2]
        also = [BAD] if EVERYTHING or module in TRIED_BEHIND_TROUBLE else []
        also += [ASIDE] if module in TRIED_ASIDE else []
        metafunc.parametrize("place", [*PLACES, *also], indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    store = None
    with no_thread_left(), ExitStack() as network:
        if request.param == ASIDE:
            for module in (weight, coordinator):
                network.enter_context(mock.patch.object(module, "LARGE", 0))
        if request.param in ("s3", BAD):
            server: S3Server = request.getfixturevalue("s3_server")
            options = server.options
            if request.param == BAD:
                proxy = network.enter_context(StoreProxy(server.address, random.Random(7)))
                proxy.trouble = TROUBLE
                options = options_for(proxy.url) | {"timeout": "5s"}
            store = ObjectStore(server.root(uuid.uuid4().hex), options)
        elif request.param == "az":
            azure: AzureServer = request.getfixturevalue("azure_server")
            store = ObjectStore(azure.root(uuid.uuid4().hex), azure.options)
        made = Place(tmp_path / "root" if request.param == "local" else None, store=store)
        yield made
        made.close()


@pytest.fixture
def log(place: Place) -> Log:
    return place.open()
