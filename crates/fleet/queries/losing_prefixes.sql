-- question: Which prefixes lose more than the others do?
-- table: connections
-- parameter: least_connections integer = 30: with fewer a prefix is not judged
-- parameter: z real = 4: how many standard errors the interval has to either side; with 4, of 10,000 prefixes that lose like the others less than one is named by chance
-- parameter: factor real = 2: the whole interval lies above so many times the share of the others
-- parameter: rows integer = 50: at most so many
-- column: prefix: of the peers
-- column: ended: its connections that sent data and ended in this time
-- column: hosts: how many hosts they were of
-- column: hosts_that_lose: how many of these retransmitted; one of many is a matter of that host
-- column: share: retransmitted segments ÷ data segments sent
-- column: low: least share that the connections allow for
-- column: high: largest one; connections, not segments, are what varies
-- column: others: the share of all other prefixes
WITH sums AS (
    SELECT remote_prefix AS prefix, count(*) AS ended, count(DISTINCT host) AS hosts,
        count(DISTINCT CASE WHEN retransmitted > 0 THEN host END) AS hosts_that_lose,
        sum(data_segments_sent * 1e0) AS sent,
        sum(retransmitted * 1e0) AS again,
        sum(data_segments_sent * 1e0 * data_segments_sent) AS sent_sent,
        sum(retransmitted * 1e0 * data_segments_sent) AS again_sent,
        sum(retransmitted * 1e0 * retransmitted) AS again_again
    FROM connections
    WHERE kind <> 'interim' AND data_segments_sent > 0 AND remote_prefix IS NOT NULL
    GROUP BY remote_prefix
), shares AS (
    SELECT *, again / sent AS share,
        (sum(again) OVER () - again) / nullif(sum(sent) OVER () - sent, 0e0) AS others
    FROM sums
), estimates AS (
    SELECT prefix, ended, hosts, hosts_that_lose, share, others,
        sqrt(greatest(0e0, again_again - 2e0 * share * again_sent + share * share * sent_sent)
            * ended / (ended - 1e0)) / sent AS error
    FROM shares
    WHERE ended >= $least_connections AND ended > 1
)
SELECT prefix, ended, hosts, hosts_that_lose, share,
    greatest(0e0, share - $z * error) AS low, least(1e0, share + $z * error) AS high, others
FROM estimates
WHERE share - $z * error > $factor * others
ORDER BY share - $z * error DESC, prefix
LIMIT $rows
