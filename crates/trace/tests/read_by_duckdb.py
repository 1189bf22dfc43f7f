"""Reads a Parquet trace with DuckDB and prints what it sees; run by read_by_duckdb.rs."""

import json
import sys

import duckdb

path = sys.argv[1]
duckdb.sql(f"CREATE VIEW trace AS FROM '{path}'")

# A copy as DuckDB makes it: snappy, plain text for dictionaries, none of our metadata.
duckdb.sql(f"COPY (SELECT * FROM trace ORDER BY time_ns) TO '{sys.argv[2]}' (FORMAT parquet)")


def rows(query):
    return duckdb.sql(query).fetchall()


print(
    json.dumps(
        {
            "columns": dict((name, kind) for name, kind, *_ in rows("DESCRIBE trace")),
            "kinds": dict(rows('SELECT kind, count(*) FROM trace GROUP BY kind ORDER BY kind')),
            "places": [row[0] for row in rows("SELECT DISTINCT place FROM trace ORDER BY 1")],
            "opens": rows(
                "SELECT local_addr, local_port, remote_addr, remote_port, program, algorithm"
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
            "by_connection": rows(
                "SELECT local_port, program, sum(acked_bytes)::BIGINT, sum(payload_bytes)::BIGINT"
                " FROM trace GROUP BY ALL ORDER BY local_port"
            ),
            "first_utc": rows(
                "SELECT epoch_us(time_utc) - time_ns // 1000 FROM trace ORDER BY time_ns LIMIT 1"
            )[0][0],
            "reserved": [
                word
                for (word,) in rows(
                    "SELECT keyword_name FROM duckdb_keywords()"
                    " WHERE keyword_category IN ('reserved', 'type_function')"
                )
            ],
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
