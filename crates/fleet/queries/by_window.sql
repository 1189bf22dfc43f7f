-- question: What is the ratio of two sums over a host's connections, in each window of time?
-- table: connections
-- parameter: of column: what is added up above the line: a column with numbers, or `connections`
-- parameter: per column: what is added up below it
-- parameter: window_us integer = 600000000: how long a window is, µs
-- parameter: origin_us integer = 0: when one of the windows begins, µs since 1970; not after the asked time
-- column: host: whose connections
-- column: window_at_us: when the window begins, µs since 1970
-- column: of_sum: sum above the line
-- column: per_sum: sum below it
-- column: ended: connections that have both
WITH counted AS (
    SELECT host, at_us - (at_us - $origin_us) % $window_us AS window_at_us,
        $of * 1e0 AS above, $per * 1e0 AS below
    FROM connections
    WHERE kind <> 'interim' AND $of IS NOT NULL AND $per IS NOT NULL
)
SELECT host, window_at_us, sum(above) AS of_sum, sum(below) AS per_sum, count(*) AS ended
FROM counted
GROUP BY host, window_at_us
ORDER BY host, window_at_us
