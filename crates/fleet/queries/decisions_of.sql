-- question: What did the kernel decide about these connections?
-- table: decisions
-- parameter: connections texts: HOST/BOOT/COOKIE of each, as rows have them
-- parameter: rows integer = 16: at most so many of each connection, the last ones
-- column: host: whose connection it is
-- column: boot: the boot in which it has its cookie
-- column: cookie: the connection
-- column: at_us: when it was decided, µs since 1970
-- column: decided: what
-- column: before: congestion state before
-- column: now: congestion state from then on
-- column: cwnd: congestion window before, segments
-- column: packets_out: segments that were outstanding
-- column: sacked_out: of them, selectively acknowledged
-- column: lost_out: of them, taken for lost
-- column: srtt_us: smoothed RTT
-- column: rto_us: retransmission timeout
-- column: value: of a timeout, which one in a row; of others, see the table
-- column: algorithm: of a change of the congestion control, the new one
-- column: all_of_them: how many decisions of this cookie there are
-- column: first_us: when the first of them was, µs since 1970: a socket that connects again keeps its cookie
WITH asked AS (
    SELECT *,
        row_number() OVER (PARTITION BY host, boot, cookie ORDER BY at_us DESC) AS age,
        count(*) OVER (PARTITION BY host, boot, cookie) AS all_of_them,
        min(at_us) OVER (PARTITION BY host, boot, cookie) AS first_us
    FROM decisions
    WHERE concat(host, '/', boot, '/', cookie) IN ($connections)
)
SELECT host, boot, cookie, at_us, decided, before, now, cwnd, packets_out, sacked_out, lost_out,
    srtt_us, rto_us, value, algorithm, all_of_them, first_us
FROM asked
WHERE age <= $rows
ORDER BY host, boot, cookie, at_us, decided
