-- question: What held a customer's connections back, beside those of others at the same hosts?
-- table: connections
-- parameter: customer customer: an address, or its prefix as rows have it: a /24 or /48
-- column: host: one that has connections of the customer; empty: all hosts that have none
-- column: is_customer: 1: the customer's connections; 0: those of others
-- column: verdict: what held them back
-- column: ended: connections that ended, or their last row if they go on
-- column: held_back_us: how long something other than the two programs did, all together
WITH last_rows AS (
    SELECT *,
        row_number() OVER (
            PARTITION BY host, boot, cookie ORDER BY at_us DESC, CASE kind WHEN 'interim' THEN 1 ELSE 0 END
        ) AS age
    FROM connections
    WHERE remote_prefix IS NOT NULL
), judged AS (
    SELECT host AS at_host, verdict,
        CASE WHEN remote_prefix = $customer THEN 1 ELSE 0 END AS is_customer,
        CASE
            WHEN verdict = 'handshake' AND kind = 'failed' THEN coalesce(duration_us, 0) * 1e0
            WHEN verdict = 'handshake' THEN coalesce(handshake_us, 0) * 1e0
            WHEN verdict IN ('peer_vanished', 'timeouts', 'unclear_loss', 'cwnd')
                THEN busy_us * 1e0
            WHEN verdict IN ('full_path', 'receiver_window', 'send_buffer')
                THEN floor(busy_us * verdict_share)
            ELSE 0e0
        END AS held_us
    FROM last_rows
    -- A socket that connects again has the row of an end for each connection.
    WHERE kind <> 'interim' OR age = 1
), served AS (
    SELECT at_host, is_customer, verdict, held_us,
        max(is_customer) OVER (PARTITION BY at_host) AS serves
    FROM judged
)
SELECT CASE WHEN serves = 1 THEN at_host ELSE '' END AS host, is_customer, verdict,
    count(*) AS ended, sum(held_us) AS held_back_us
FROM served
GROUP BY CASE WHEN serves = 1 THEN at_host ELSE '' END, is_customer, verdict
ORDER BY host, is_customer DESC, verdict
