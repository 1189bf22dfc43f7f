-- question: How many connections ended when, and what held them back?
-- table: connections
-- parameter: step_us integer = 300000000: how long a step is, µs
-- column: step_at_us: when the step begins, µs since 1970
-- column: verdict: what held them back
-- column: ended: connections that ended in it
-- column: bytes_acked: sent and acknowledged by them
-- column: hosts: how many hosts they were of
-- column: newest_us: the newest row, µs since 1970
WITH steps AS (
    SELECT at_us - at_us % $step_us AS step_at_us, at_us AS row_us, verdict, bytes_acked AS acked, host
    FROM connections
    WHERE kind <> 'interim'
)
SELECT step_at_us, verdict, count(*) AS ended, sum(acked) AS bytes_acked,
    count(DISTINCT host) AS hosts, max(row_us) AS newest_us
FROM steps
GROUP BY step_at_us, verdict
ORDER BY step_at_us, verdict
