SELECT id, bidder, price FROM (
  SELECT a.id, b.bidder, b.price,
    ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.at, b.bidder) AS place
  FROM auction a JOIN bid b ON a.id = b.auction AND b.at BETWEEN a.at AND a.expires
) t
WHERE place = 1
