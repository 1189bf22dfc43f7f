-- question: What do both ends say of the connections between hosts of the fleet?
-- table: connections
-- parameter: apart_us integer = 2000000: the two rows were written at most so far apart
-- parameter: rows integer = 1000: at most so many
-- column: at_us: when the end that connected wrote its row, µs since 1970
-- column: host: the end that connected
-- column: cookie: its connection
-- column: there: the host that accepted
-- column: cookie_there: its connection
-- column: matched: `addresses`, or `ports and bytes` where rows have no addresses
-- column: service: the port
-- column: verdict: what the end that connected says
-- column: verdict_there: what the end that accepted says
-- column: retransmitted: by the end that connected
-- column: lost_on_the_way: its data segments that never came
-- column: retransmitted_there: by the end that accepted
-- column: lost_on_the_way_back: its data segments that never came
WITH made AS (
    SELECT at_us, host, cookie, service, local_port, remote_port, local_address, remote_address,
        verdict, retransmitted, data_segments_sent, data_segments_received, bytes_acked,
        bytes_received
    FROM connections
    WHERE kind = 'end' AND direction = 'connect'
), accepted AS (
    SELECT at_us AS at_there_us, host AS there, cookie AS cookie_there,
        local_port AS port_there, remote_port AS port_here,
        local_address AS address_there, remote_address AS address_here,
        verdict AS verdict_there, retransmitted AS retransmitted_there,
        data_segments_sent AS segments_sent_there,
        data_segments_received AS segments_received_there,
        bytes_acked AS bytes_acked_there, bytes_received AS bytes_received_there
    FROM connections
    WHERE kind = 'end' AND direction = 'accept'
)
SELECT at_us, host, cookie, there, cookie_there,
    CASE WHEN local_address IS NULL THEN 'ports and bytes' ELSE 'addresses' END AS matched,
    service, verdict, verdict_there, retransmitted,
    data_segments_sent - segments_received_there AS lost_on_the_way,
    retransmitted_there,
    segments_sent_there - data_segments_received AS lost_on_the_way_back
FROM made
INNER JOIN accepted ON local_port = port_here AND remote_port = port_there
WHERE host <> there
    AND abs(at_us - at_there_us) <= $apart_us
    AND (
        (local_address = address_here AND remote_address = address_there)
        -- SYN and FIN count as a byte each.
        OR (local_address IS NULL AND address_here IS NULL
            AND abs(bytes_acked - bytes_received_there) <= 2
            AND abs(bytes_received - bytes_acked_there) <= 2)
    )
ORDER BY at_us, host, cookie, there, cookie_there
LIMIT $rows
