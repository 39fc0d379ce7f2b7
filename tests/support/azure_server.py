"""Azure's own emulator of its blob store, in a process of its own, on a free port of this machine.

    with azure_serving(find_azure()) as server:
        ObjectStore(server.root("a"), server.options)

Only tests by LAKELOG_AZURE=1 need it; `make azure` installs it.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import os
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Generator
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Final

from tests.architecture.project_files import ROOT
from tests.support.serving import wait_for

WANTED: Final = os.environ.get("LAKELOG_AZURE") == "1"
CONTAINER: Final = "lakelog-tests"
ACCOUNT: Final = "tests"
KEY: Final = base64.b64encode(b"not a secret").decode()
_VERSION: Final = "2021-12-02"


@dataclass(frozen=True)
class AzureServer:
    address: tuple[str, int]

    @property
    def options(self) -> dict[str, str]:
        return {
            "azure_storage_account_name": ACCOUNT,
            "azure_storage_account_key": KEY,
            "azure_storage_endpoint": self._endpoint,
            "azure_allow_http": "true",
        }

    def root(self, prefix: str) -> str:
        return f"az://{CONTAINER}/{prefix}"

    def make_container(self) -> None:
        request = urllib.request.Request(f"{self._endpoint}/{CONTAINER}?restype=container", method="PUT")
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION}
        for name, value in (headers | {"Authorization": _signed(headers), "Content-Length": "0"}).items():
            request.add_header(name, value)
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 201

    @property
    def _endpoint(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}/{ACCOUNT}"


def _signed(headers: dict[str, str]) -> str:
    """The creation of the container, by the shared key; lines that say nothing are empty."""
    lines = ["PUT", *[""] * 11, *(f"{name}:{value}" for name, value in headers.items())]
    text = "\n".join([*lines, f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}", "restype:container"])
    digest = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    return f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"


def find_azure() -> Path:
    found = subprocess.run([str(ROOT / "tools" / "ensure-azure")], stdout=subprocess.PIPE, text=True, check=True)
    return Path(found.stdout.strip())


@contextlib.contextmanager
def azure_serving(program: Path) -> Generator[AzureServer]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = ("127.0.0.1", free.getsockname()[1])
    place = ["--blobHost", address[0], "--blobPort", str(address[1])]
    process = subprocess.Popen(
        [str(program), *place, "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
    )
    try:
        server = AzureServer(address)
        wait_for(lambda: _is_there(server), "an answer of Azurite")
        yield server
    finally:
        process.kill()
        process.wait()


def _is_there(server: AzureServer) -> bool:
    try:
        server.make_container()
    except urllib.error.URLError as error:
        if isinstance(error, urllib.error.HTTPError):
            raise
        return False
    return True
