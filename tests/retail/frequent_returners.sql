-- Customers who return more than their state does on average, half as much again.
WITH returned AS (
  SELECT r.customer_id, c.state, SUM(r.amount) AS total
  FROM store_returns r JOIN customers c ON c.customer_id = r.customer_id
  GROUP BY r.customer_id, c.state
)
SELECT customer_id, state, total FROM returned r
WHERE total > (SELECT AVG(total) * 1.5 FROM returned o WHERE o.state = r.state)
