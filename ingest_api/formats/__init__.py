"""The formats of records: decoders of requests, writers of answers."""
