-- Tickets with several items of which none came back, bought by customers who also buy on the web.
SELECT s.ticket, s.customer_id, COUNT(*) AS items, SUM(s.sales_price) AS total
FROM store_sales s
WHERE NOT EXISTS (SELECT 1 FROM store_returns r WHERE r.ticket = s.ticket)
  AND EXISTS (SELECT 1 FROM web_sales w WHERE w.customer_id = s.customer_id)
GROUP BY s.ticket, s.customer_id
HAVING COUNT(*) > 1
