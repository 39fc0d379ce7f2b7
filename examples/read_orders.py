"""A function for the job `consume`: what of each order is to go on, and which records are none.

python -m jobs.consume --server http://127.0.0.1:8082 --group shop --topic orders --module read_orders.items --to items
"""

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, get_json_object, when

from pyspark_lakelog import dead_letter


def items(orders: DataFrame) -> DataFrame:
    item = get_json_object(col("value").cast("string"), "$.item")
    return orders.select("key", item.alias("value"), dead_letter(when(item.isNull(), "it has no item")))
