SELECT channel, TO_DATE(at) AS day, MAX(at) AS latest, COUNT(*) AS bids, COUNT(DISTINCT bidder) AS bidders
FROM bid GROUP BY channel, TO_DATE(at)
