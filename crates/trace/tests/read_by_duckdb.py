"""Reads a Parquet trace with DuckDB and prints what it sees; run by read_by_duckdb.rs."""

import json
import sys

import duckdb

path = sys.argv[1]
duckdb.sql(f"CREATE VIEW trace AS FROM '{path}'")


def rows(query):
    return duckdb.sql(query).fetchall()


print(
    json.dumps(
        {
            "columns": dict((name, kind) for name, kind, *_ in rows("DESCRIBE trace")),
            "kinds": dict(rows('SELECT kind, count(*) FROM trace GROUP BY kind ORDER BY kind')),
            "places": [row[0] for row in rows('SELECT DISTINCT "where" FROM trace ORDER BY 1')],
            "opens": rows(
                "SELECT local_addr, local_port, remote_addr, remote_port, comm, algorithm"
                " FROM trace WHERE kind = 'open' ORDER BY local_port"
            ),
            "cwnd": rows("SELECT min(cwnd), max(cwnd), count(cwnd) FROM trace")[0],
            "clamp_set": rows("SELECT count(clamp) FROM trace")[0][0],
            "tcp_state": [
                row[0] for row in rows("SELECT DISTINCT tcp_state FROM trace WHERE cwnd IS NOT NULL")
            ],
            "first_sack": rows(
                "SELECT sack_blocks FROM trace WHERE kind = 'sack' ORDER BY time_ns LIMIT 1"
            )[0][0],
            "metadata": dict(
                (key.decode(), value.decode())
                for key, value in rows(
                    f"SELECT key, value FROM parquet_kv_metadata('{path}')"
                    " WHERE key::VARCHAR LIKE 'transom.%'"
                )
            ),
        }
    )
)
