WITH sold AS (
  SELECT a.id, a.seller, a.expires, MAX(b.price) AS price
  FROM auction a JOIN bid b ON b.auction = a.id AND b.at BETWEEN a.at AND a.expires
  GROUP BY a.id, a.seller, a.expires
)
SELECT seller, id,
  SUM(price) OVER (PARTITION BY seller ORDER BY expires, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS recent
FROM sold
