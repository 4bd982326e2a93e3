"""spark_job.py FOLDER [sql] [python]: a session that works, says so, and ends with 0 when there is
a file FOLDER/end."""
import os
import sys
import time

from pyspark.sql import SparkSession

folder, does = sys.argv[1], sys.argv[2:]
session = SparkSession.builder.appName("engines").getOrCreate()
session.sparkContext.setLogLevel("ERROR")
if "sql" in does:
    frame = session.range(0, 2_000_000, 1, 4).selectExpr("id", "id % 1000 k", "md5(cast(id as string)) h")
    frame.cache()
    assert frame.count() == 2_000_000
    assert frame.groupBy("k").count().count() == 1000
if "python" in does:
    rows = session.sparkContext.parallelize(range(200_000), 4)
    assert rows.map(lambda x: (x % 100, [x] * 20)).groupByKey().mapValues(len).count() == 100
print("WORKED", flush=True)
while not os.path.exists(folder + "/end"):
    time.sleep(0.2)
session.stop()
