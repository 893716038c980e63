SELECT b.auction, b.price, b.bidder, b.at
FROM bid b JOIN (
  SELECT MAX(price) AS most, window.start AS since, window.end AS until FROM bid GROUP BY window(at, '10 minutes')
) m ON b.price = m.most AND b.at >= m.since AND b.at < m.until
