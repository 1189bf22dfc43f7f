-- question: Which machines are there, and what are they?
-- table: hosts
-- column: host: its name
-- column: described_us: when its shipper looked at it last, µs since 1970
-- column: kernel: its release
-- column: agent_version: of the agent that wrote its newest file of connections
-- column: source: `probes` or `sock_diag`, if all rows of that file have the same
-- column: congestion_control: of new sockets
-- column: labels: `KEY=VALUE`, separated by `;`
WITH ranked AS (
    SELECT *, row_number() OVER (PARTITION BY host ORDER BY at_us DESC) AS age
    FROM hosts
)
SELECT host, at_us AS described_us, kernel, agent_version, source, congestion_control, labels
FROM ranked
WHERE age = 1
ORDER BY host
