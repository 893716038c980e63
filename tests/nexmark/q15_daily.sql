SELECT TO_DATE(at) AS day,
  COUNT(*) AS bids,
  COUNT(*) FILTER (WHERE price < 10) AS low,
  COUNT(DISTINCT bidder) AS bidders,
  COUNT(DISTINCT bidder) FILTER (WHERE price >= 10) AS high_bidders,
  COUNT(DISTINCT auction) AS auctions
FROM bid GROUP BY TO_DATE(at)
