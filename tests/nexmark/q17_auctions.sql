SELECT auction, TO_DATE(at) AS day, COUNT(*) AS bids, COUNT(*) FILTER (WHERE price < 10) AS low,
  MIN(price) AS least, MAX(price) AS most, SUM(price) AS total
FROM bid GROUP BY auction, TO_DATE(at)
