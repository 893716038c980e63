-- Averages of sales in bands of quantities, each a scalar subquery, chosen by how many sales there are.
SELECT s.store_id, s.name,
  CASE WHEN (SELECT COUNT(*) FROM store_sales x WHERE x.store_id = s.store_id AND x.quantity BETWEEN 1 AND 5) > 10
    THEN (SELECT AVG(x.list_price) FROM store_sales x WHERE x.store_id = s.store_id AND x.quantity BETWEEN 1 AND 5)
    ELSE (SELECT AVG(x.profit) FROM store_sales x WHERE x.store_id = s.store_id AND x.quantity BETWEEN 1 AND 5)
  END AS low,
  CASE WHEN (SELECT COUNT(*) FROM store_sales x WHERE x.store_id = s.store_id AND x.quantity BETWEEN 6 AND 10) > 10
    THEN (SELECT MAX(x.list_price) FROM store_sales x WHERE x.store_id = s.store_id AND x.quantity BETWEEN 6 AND 10)
    ELSE (SELECT MIN(x.profit) FROM store_sales x WHERE x.store_id = s.store_id AND x.quantity BETWEEN 6 AND 10)
  END AS high
FROM stores s
