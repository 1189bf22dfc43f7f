-- question: Which connections of a customer were slow at that time, and what held them back?
-- table: connections
-- parameter: customer customer: an address, or its prefix as rows have it: a /24 or /48
-- parameter: rows integer = 20: at most so many
-- column: at_us: when the row was written, µs since 1970
-- column: host: whose row it is
-- column: cookie: the connection, with the host's boot
-- column: service: its port
-- column: verdict: what held it back
-- column: held_back_us: how long something other than the two programs did
-- column: duration_us: how long it lasted
-- column: bytes_acked: sent and acknowledged
-- column: retransmitted: segments
-- column: srtt_us: the last smoothed RTT
-- column: last_decisions: what the kernel decided
-- column: customers_connections: all connections of the customer in this time
-- column: held_back: how many of them something held back
-- column: boot: the boot in which it has its cookie
-- column: level: how much was kept of it: 0; 1 with decisions; 2 recorded event by event
-- column: chosen: why it was recorded, or no
-- column: kind: of its row: end, failed, or interim, if it goes on
WITH customers AS (
    SELECT at_us, host, boot, cookie, level, chosen, kind, service, verdict, verdict_share, busy_us, handshake_us,
        duration_us, bytes_acked, retransmitted, srtt_us, last_decisions,
        row_number() OVER (
            PARTITION BY host, boot, cookie ORDER BY at_us DESC, CASE kind WHEN 'interim' THEN 1 ELSE 0 END
        ) AS age
    FROM connections
    WHERE remote_prefix = $customer
), judged AS (
    SELECT *,
        CASE
            WHEN verdict = 'handshake' AND kind = 'failed' THEN coalesce(duration_us, 0) * 1e0
            WHEN verdict = 'handshake' THEN coalesce(handshake_us, 0) * 1e0
            WHEN verdict IN ('peer_vanished', 'timeouts', 'unclear_loss', 'cwnd')
                THEN busy_us * 1e0
            WHEN verdict IN ('full_path', 'receiver_window', 'send_buffer')
                THEN floor(busy_us * verdict_share)
            ELSE 0e0
        END AS held_back_us
    FROM customers
    -- A socket that connects again has the row of an end for each connection.
    WHERE kind <> 'interim' OR age = 1
), counted AS (
    SELECT *,
        count(*) OVER () AS customers_connections,
        sum(CASE WHEN held_back_us > 0 THEN 1 ELSE 0 END) OVER () AS held_back
    FROM judged
)
SELECT at_us, host, cookie, service, verdict, held_back_us, duration_us, bytes_acked,
    retransmitted, srtt_us, last_decisions, customers_connections, held_back, boot, level, chosen,
    kind
FROM counted
WHERE held_back_us > 0
ORDER BY held_back_us DESC, host, cookie, at_us
LIMIT $rows
