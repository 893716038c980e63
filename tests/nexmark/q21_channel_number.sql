SELECT auction, bidder, price,
  CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' ELSE REGEXP_EXTRACT(url, 'channel=([0-9]+)', 1) END AS number
FROM bid
WHERE LOWER(channel) IN ('apple', 'google') OR url RLIKE 'channel=[0-9]+'
