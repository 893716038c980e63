SELECT b.auction, b.bidder, b.price, a.item, a.category FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 1
