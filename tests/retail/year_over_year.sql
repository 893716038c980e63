-- Customers who spent more on the web than in stores, from one year to the next.
WITH spent AS (
  SELECT customer_id, year, SUM(sales_price * quantity) AS total, 's' AS channel
  FROM store_sales JOIN days USING (day_id) GROUP BY customer_id, year
  UNION ALL
  SELECT customer_id, year, SUM(sales_price * quantity), 'w'
  FROM web_sales JOIN days USING (day_id) GROUP BY customer_id, year
)
SELECT c.customer_id, c.name, s1.total AS store_before, s2.total AS store_after, w1.total AS web_before,
  w2.total AS web_after
FROM customers c
JOIN spent s1 ON s1.customer_id = c.customer_id AND s1.channel = 's' AND s1.year = 2001
JOIN spent s2 ON s2.customer_id = c.customer_id AND s2.channel = 's' AND s2.year = 2002
JOIN spent w1 ON w1.customer_id = c.customer_id AND w1.channel = 'w' AND w1.year = 2001
JOIN spent w2 ON w2.customer_id = c.customer_id AND w2.channel = 'w' AND w2.year = 2002
WHERE s1.total > 0 AND w1.total > 0 AND w2.total / w1.total > s2.total / s1.total
