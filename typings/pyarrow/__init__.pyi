# pyarrow says nothing of its types: whatever comes out of it is Any, and our own signatures say what it is.
from typing import Any

def __getattr__(name: str) -> Any: ...
