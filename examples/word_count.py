"""How often each word was said, kept up to date in a topic of its own, whose keys are the words.

python -m jobs.consume --server URL --group words --topic lines --module word_count.count_words \
    --to counts --checkpoint DIRECTORY
"""

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, count, explode, lower, split


def count_words(lines: DataFrame) -> DataFrame:
    said = split(lower(col("value").cast("string")), r"[^\p{L}\p{N}]+")
    words = lines.select(explode(said).alias("key")).where("key != ''")
    return words.groupBy("key").agg(count("*").cast("string").alias("value"))
