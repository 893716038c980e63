SELECT auction, bidder, CAST(price AS DECIMAL(12, 2)) * 0.91 AS euros, at FROM bid
