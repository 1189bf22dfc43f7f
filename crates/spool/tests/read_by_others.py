"""Each column of a file as two readers see it that know nothing of Transom, as JSON."""

import json
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as parquet

path = sys.argv[1]
table = parquet.read_table(path)
columns = {}
for name in table.column_names:
    column = table[name]
    columns[name] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
relation = duckdb.sql(f"SELECT * REPLACE (epoch_us(time) AS time) FROM '{path}'")
rows = relation.fetchall()
seen = {name: [row[at] for row in rows] for at, name in enumerate(relation.columns)}
one_cookie = f"SELECT count(*) FROM '{path}' WHERE cookie = {sys.argv[2]}"
json.dump({"pyarrow": columns, "duckdb": seen, "found": duckdb.sql(one_cookie).fetchall()[0][0]}, sys.stdout)
