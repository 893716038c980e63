WITH counts AS (
  SELECT auction, window.start AS since, COUNT(*) AS bids
  FROM bid GROUP BY auction, window(at, '10 minutes', '5 minutes')
)
SELECT c.auction, c.since, c.bids
FROM counts c JOIN (SELECT since, MAX(bids) AS most FROM counts GROUP BY since) m ON c.since = m.since
WHERE c.bids >= m.most
