-- question: What did a change do, by cohort: are hosts that had it different from before by more than those that had it not?
-- table: connections
-- parameter: change time: when the change was made; rows before and after are of the asked time
-- parameter: treated texts: hosts that had it; all others are the control
-- parameter: least_connections integer = 30: hosts with fewer before or after are left out
-- parameter: least_hosts integer = 5: with fewer in either cohort there is no interval
-- parameter: z real = 1.96: how many standard errors the interval has to either side
-- column: measure: `retransmitted` (of segments), `rate` (bit/s, geometric mean of connections of 100 kB and more), `srtt` (µs), `path` (share of connections that losses, a queue or silence held back)
-- column: hosts: of the treated cohort
-- column: before: mean of the hosts
-- column: after: the same
-- column: control_hosts: of the control
-- column: control_before: mean of the hosts
-- column: control_after: the same
-- column: effect: what changed for the treated beyond what changed for the control
-- column: low: least effect that the hosts allow for; hosts, not connections, are what varies
-- column: high: largest one
WITH per_connection AS (
    SELECT host,
        CASE WHEN host IN ($treated) THEN 1 ELSE 0 END AS is_treated,
        CASE WHEN at_us >= $change THEN 1 ELSE 0 END AS is_after,
        retransmitted * 1e0 AS again,
        data_segments_sent * 1e0 AS sent,
        srtt_us * 1e0 AS rtt,
        CASE WHEN bytes_acked >= 100000 AND duration_us > 0
            THEN ln(bytes_acked * 8e6 / duration_us) END AS log_rate,
        CASE WHEN verdict IN ('timeouts', 'unclear_loss', 'full_path', 'peer_vanished')
            THEN 1e0 ELSE 0e0 END AS by_path
    FROM connections
    WHERE kind <> 'interim'
), per_host AS (
    SELECT host, is_treated, is_after, sum(again) / nullif(sum(sent), 0e0) AS retransmitted_share,
        exp(avg(log_rate)) AS rate, avg(rtt) AS mean_rtt, avg(by_path) AS path_share
    FROM per_connection
    GROUP BY host, is_treated, is_after
    HAVING count(*) >= $least_connections
), measures AS (
    SELECT 'retransmitted' AS measure
    UNION ALL SELECT 'rate' AS measure
    UNION ALL SELECT 'srtt' AS measure
    UNION ALL SELECT 'path' AS measure
), measured AS (
    SELECT measure, host, is_treated, is_after,
        CASE measure
            WHEN 'retransmitted' THEN retransmitted_share
            WHEN 'rate' THEN rate
            WHEN 'srtt' THEN mean_rtt
            ELSE path_share
        END AS mean_value
    FROM per_host
    CROSS JOIN measures
), paired AS (
    SELECT measure, host, is_treated,
        max(CASE WHEN is_after = 0 THEN mean_value END) AS value_before,
        max(CASE WHEN is_after = 1 THEN mean_value END) AS value_after
    FROM measured
    GROUP BY measure, host, is_treated
), differences AS (
    SELECT measure, is_treated, value_before, value_after,
        value_after - value_before AS difference
    FROM paired
    WHERE value_before IS NOT NULL AND value_after IS NOT NULL
), cohorts AS (
    SELECT measure,
        sum(is_treated) AS hosts,
        avg(CASE WHEN is_treated = 1 THEN value_before END) AS mean_before,
        avg(CASE WHEN is_treated = 1 THEN value_after END) AS mean_after,
        avg(CASE WHEN is_treated = 1 THEN difference END) AS moved,
        sum(CASE WHEN is_treated = 1 THEN difference * difference END) AS squares,
        sum(1 - is_treated) AS control_hosts,
        avg(CASE WHEN is_treated = 0 THEN value_before END) AS control_before,
        avg(CASE WHEN is_treated = 0 THEN value_after END) AS control_after,
        avg(CASE WHEN is_treated = 0 THEN difference END) AS control_moved,
        sum(CASE WHEN is_treated = 0 THEN difference * difference END) AS control_squares
    FROM differences
    GROUP BY measure
), effects AS (
    SELECT *, moved - control_moved AS effect,
        CASE WHEN hosts >= $least_hosts AND control_hosts >= $least_hosts
            AND hosts > 1 AND control_hosts > 1
            THEN sqrt(
                greatest(0e0, squares / hosts - moved * moved) / (hosts - 1e0)
                + greatest(0e0, control_squares / control_hosts - control_moved * control_moved)
                    / (control_hosts - 1e0))
        END AS error
    FROM cohorts
)
SELECT measure, hosts, mean_before AS before, mean_after AS after, control_hosts, control_before,
    control_after, effect, effect - $z * error AS low, effect + $z * error AS high
FROM effects
ORDER BY measure
