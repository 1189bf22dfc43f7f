-- question: Of which of these connections are there recorded events?
-- table: events
-- parameter: hosts texts: whose connections
-- parameter: boots texts: the boots in which they have their cookies
-- parameter: cookies integers: the connections, as their rows have them
-- column: host: whose connection it is
-- column: boot: the boot in which it has its cookie
-- column: cookie: the connection
-- column: events: how many there are
-- column: first_us: the first one, µs since 1970
-- column: last_us: the last one
WITH asked AS (
    SELECT host, boot, cookie, at_us
    FROM events
    WHERE host IN ($hosts) AND boot IN ($boots) AND cookie IN ($cookies)
)
SELECT host, boot, cookie, count(*) AS events, min(at_us) AS first_us, max(at_us) AS last_us
FROM asked
GROUP BY host, boot, cookie
ORDER BY host, boot, cookie
