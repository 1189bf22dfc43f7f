-- question: What held connections back, by kernel release, congestion control or a label of their machines?
-- table: connections
-- table: hosts
-- parameter: by text = kernel: `kernel`, `architecture`, `congestion_control` (of new sockets), `source`, `version`, or the key of a label
-- column: machines: what their machines have there; `unknown` of those without a row or without that label
-- column: hosts: machines with such connections
-- column: verdict: what held them back
-- column: ended: connections
-- column: share: of those of these machines that ended in the time
-- column: bytes_acked: sent and acknowledged by them
WITH described AS (
    SELECT host AS its_host, boot AS its_boot,
        CASE $by
            WHEN 'kernel' THEN kernel
            WHEN 'architecture' THEN architecture
            WHEN 'congestion_control' THEN congestion_control
            WHEN 'source' THEN source
            WHEN 'version' THEN version
            ELSE nullif(regexp_extract(labels, concat('(^|;)', $by, '=([^;]*)'), 2), '')
        END AS has,
        row_number() OVER (PARTITION BY host, boot ORDER BY at_us DESC) AS age
    FROM hosts
), newest AS (
    SELECT its_host, its_boot, has
    FROM described
    WHERE age = 1
), told AS (
    SELECT coalesce(has, 'unknown') AS machines, host, verdict, bytes_acked
    FROM connections
    LEFT JOIN newest ON host = its_host AND boot = its_boot
    WHERE kind <> 'interim'
), by_verdict AS (
    SELECT machines, verdict, count(*) AS ended, sum(bytes_acked) AS acked
    FROM told
    GROUP BY machines, verdict
), counted AS (
    SELECT machines AS such, count(DISTINCT host) AS number_of_hosts
    FROM told
    GROUP BY machines
)
SELECT machines, number_of_hosts AS hosts, verdict, ended,
    ended * 1e0 / sum(ended) OVER (PARTITION BY machines) AS share, acked AS bytes_acked
FROM by_verdict
INNER JOIN counted ON machines = such
ORDER BY machines, ended DESC, verdict
