SELECT bidder, COUNT(*) AS bids, session_window.start AS since, session_window.end AS until
FROM bid GROUP BY bidder, session_window(at, '10 minutes')
