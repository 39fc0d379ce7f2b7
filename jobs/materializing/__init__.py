"""How a topic becomes a typed Delta table of the user's own, exactly once.

Of the modules here `marks`, `columns`, `schemas`, `avro`, `protobuf`, `reasons` and `letters` decide without a JVM, and
`parsing` and `newest` are functions from frame to frame; `target`, `posting` and `batches` do. None knows how the job
is called.
"""
