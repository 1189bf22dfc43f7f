-- question: What does the other end say of a customer's connections, where that is a host of the fleet, too?
-- table: connections
-- parameter: customer customer: an address, or its prefix as rows have it: a /24 or /48
-- parameter: apart_us integer = 2000000: the two rows were written at most so far apart
-- parameter: rows integer = 100000: at most so many
-- column: host: whose row it is
-- column: boot: of that host
-- column: cookie: its connection
-- column: at_us: when it wrote its row, µs since 1970
-- column: there: the host at the other end
-- column: cookie_there: its connection
-- column: at_there_us: when the other end wrote its row, µs since 1970
-- column: matched: `addresses`, or `ports and bytes` where rows have no addresses
-- column: verdict_there: what the other end says
-- column: retransmitted_there: by the other end
-- column: lost_on_the_way: data segments of this end that never came
-- column: lost_on_the_way_back: data segments of the other end that never came
WITH own AS (
    SELECT at_us, host, boot, cookie, direction, local_port, remote_port, local_address, remote_address,
        data_segments_sent, data_segments_received, bytes_acked, bytes_received
    FROM connections
    WHERE remote_prefix = $customer AND kind = 'end' AND direction IN ('connect', 'accept')
), others AS (
    SELECT at_us AS at_there_us, host AS there, cookie AS cookie_there,
        direction AS direction_there, local_port AS port_there, remote_port AS port_here,
        local_address AS address_there, remote_address AS address_here,
        verdict AS verdict_there, retransmitted AS retransmitted_there,
        data_segments_sent AS segments_sent_there,
        data_segments_received AS segments_received_there,
        bytes_acked AS bytes_acked_there, bytes_received AS bytes_received_there
    FROM connections
    WHERE kind = 'end' AND direction IN ('connect', 'accept')
)
SELECT host, boot, cookie, at_us, there, cookie_there, at_there_us,
    CASE WHEN local_address IS NULL THEN 'ports and bytes' ELSE 'addresses' END AS matched,
    verdict_there, retransmitted_there,
    data_segments_sent - segments_received_there AS lost_on_the_way,
    segments_sent_there - data_segments_received AS lost_on_the_way_back
FROM own
INNER JOIN others ON local_port = port_here AND remote_port = port_there
WHERE host <> there AND direction <> direction_there
    AND abs(at_us - at_there_us) <= $apart_us
    AND (
        (local_address = address_here AND remote_address = address_there)
        -- SYN and FIN count as a byte each.
        OR (local_address IS NULL AND address_here IS NULL
            AND abs(bytes_acked - bytes_received_there) <= 2
            AND abs(bytes_received - bytes_acked_there) <= 2)
    )
ORDER BY host, boot, cookie, at_us, there, cookie_there
LIMIT $rows
