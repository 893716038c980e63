SELECT auction, bidder, price, at FROM (
  SELECT auction, bidder, price, at,
    ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY at DESC, price) AS place
  FROM bid
) t
WHERE place <= 1
