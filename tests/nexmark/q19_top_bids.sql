SELECT auction, price, bidder, place FROM (
  SELECT auction, price, bidder, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, bidder) AS place FROM bid
) t
WHERE place <= 3
