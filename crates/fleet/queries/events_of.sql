-- question: What happened to a connection, event by event?
-- table: events
-- table: connections
-- parameter: host text: whose connection
-- parameter: boot text: the boot in which it has its cookie
-- parameter: cookie integer: the connection, as its row has it
-- parameter: rows integer = 1000: at most so many events, the first ones
-- column: at_us: when, µs since 1970
-- column: into_us: since the connection began; null: nobody saw that, or it has no row in the time asked
-- column: event: what happened (docs/events.md)
-- column: kernel_function: that was running
-- column: acked_bytes: of an `ack`: newly acknowledged
-- column: segments: of a `send` or `retransmit`
-- column: retransmit_reason: of a `retransmit`
-- column: in_a_row: of an `rto` or `dup_ack`: which one
-- column: cwnd: congestion window, segments
-- column: ssthresh: slow start threshold, segments
-- column: packets_out: segments that are outstanding
-- column: sacked_out: of them, selectively acknowledged
-- column: lost_out: of them, taken for lost
-- column: srtt_us: smoothed RTT
-- column: rto_us: retransmission timeout
-- column: snd_wnd: window that the peer offers, bytes
-- column: unsent: written by the program and not yet sent, bytes
-- column: ca_state: congestion state
-- column: verdict: what held the connection back, as its last row says
-- column: retransmitted: segments of the whole connection, as its last row says
-- column: all_of_them: how many events of this connection there are
WITH asked AS (
    SELECT host AS its_host, boot AS its_boot, cookie AS its_cookie, at_us, time_ns, kind AS event,
        place AS kernel_function, acked_bytes, segments, retransmit_reason, in_a_row, cwnd, ssthresh,
        packets_out, sacked_out, lost_out, srtt_us, rto_us, snd_wnd, unsent, ca_state,
        row_number() OVER (ORDER BY time_ns, cpu, kind) AS which,
        count(*) OVER () AS all_of_them
    FROM events
    WHERE host = $host AND boot = $boot AND cookie = $cookie
), told AS (
    SELECT host, boot, cookie, at_us - duration_us AS begun_us, verdict, retransmitted,
        row_number() OVER (ORDER BY at_us DESC) AS age
    FROM connections
    WHERE host = $host AND boot = $boot AND cookie = $cookie
), last_row AS (
    SELECT host, boot, cookie, begun_us, verdict, retransmitted
    FROM told
    WHERE age = 1
)
SELECT at_us, at_us - begun_us AS into_us, event, kernel_function, acked_bytes, segments,
    retransmit_reason, in_a_row, cwnd, ssthresh, packets_out, sacked_out, lost_out, srtt_us, rto_us,
    snd_wnd, unsent, ca_state, verdict, retransmitted, all_of_them
FROM asked
LEFT JOIN last_row ON its_host = host AND its_boot = boot AND its_cookie = cookie
WHERE which <= $rows
ORDER BY which
