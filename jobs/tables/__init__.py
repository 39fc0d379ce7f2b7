"""Jobs that work on topics' tables, one topic after the other, with Spark or without."""
