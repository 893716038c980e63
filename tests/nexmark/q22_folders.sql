SELECT auction, bidder, SPLIT_PART(url, '/', 4) AS first, SPLIT_PART(url, '/', 5) AS second FROM bid
