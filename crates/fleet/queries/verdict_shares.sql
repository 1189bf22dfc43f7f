-- question: What held connections back, by service and hour?
-- table: connections
-- column: hour_us: the hour in which they ended, µs since 1970
-- column: service: the port that does not change
-- column: name: its usual name; the port's number where we know none
-- column: verdict: what held them back
-- column: ended: connections
-- column: share: of those of the service that ended in the hour
-- column: bytes_acked: sent and acknowledged by them
WITH by_verdict AS (
    SELECT at_us - at_us % 3600000000 AS hour_us, service, verdict, count(*) AS ended,
        sum(bytes_acked) AS acked
    FROM connections
    WHERE kind <> 'interim'
    GROUP BY at_us - at_us % 3600000000, service, verdict
)
SELECT hour_us, service,
    CASE service
        WHEN 22 THEN 'ssh'
        WHEN 25 THEN 'smtp'
        WHEN 53 THEN 'domain'
        WHEN 80 THEN 'http'
        WHEN 443 THEN 'https'
        WHEN 993 THEN 'imaps'
        WHEN 3306 THEN 'mysql'
        WHEN 5432 THEN 'postgresql'
        WHEN 6379 THEN 'redis'
        WHEN 9092 THEN 'kafka'
        ELSE concat('port ', service)
    END AS name,
    verdict, ended,
    ended * 1e0 / sum(ended) OVER (PARTITION BY hour_us, service) AS share,
    acked AS bytes_acked
FROM by_verdict
ORDER BY hour_us, service, ended DESC, verdict
