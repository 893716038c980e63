SELECT auction, bidder, price, at FROM bid
