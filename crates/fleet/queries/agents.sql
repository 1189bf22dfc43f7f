-- question: Which agents keep to their budget, and what did they lose?
-- table: agent
-- column: host: whose agent
-- column: seen_us: its last row, µs since 1970
-- column: agent_version: of the agent
-- column: last_level: of detail in its last row; below the configured one it is over its budget; -1: new connections are counted, not recorded
-- column: lowest_level: in this time
-- column: largest_cpu: share of one CPU, the largest in this time
-- column: rows_written: connections
-- column: rows_lost: since the agent began, the largest number in this time
-- column: not_tracked: connections without a row, the same
-- column: gaps: how often nobody looked
-- column: total_gap_us: how long, together
WITH ranked AS (
    SELECT *, row_number() OVER (PARTITION BY host ORDER BY at_us DESC) AS age,
        CASE WHEN level = 255 THEN -1 ELSE level END AS detail
    FROM agent
)
SELECT host, max(at_us) AS seen_us,
    max(CASE WHEN age = 1 THEN version END) AS agent_version,
    max(CASE WHEN age = 1 THEN detail END) AS last_level,
    min(detail) AS lowest_level,
    max(cpu_share) AS largest_cpu,
    sum(rows) AS rows_written,
    max(CASE WHEN event <> 'gap' THEN lost_rows ELSE 0 END) AS rows_lost,
    max(untracked) AS not_tracked,
    sum(CASE WHEN event = 'gap' THEN 1 ELSE 0 END) AS gaps,
    sum(CASE WHEN event = 'gap' THEN gap_us ELSE 0 END) AS total_gap_us
FROM ranked
GROUP BY host
ORDER BY rows_lost DESC, largest_cpu DESC, host
