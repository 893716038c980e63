-- Categories that are bought together on one ticket, with how often and how much of each.
SELECT i.category AS one, j.category AS other, COUNT(*) AS pairs, COUNT(DISTINCT a.ticket) AS tickets,
  SUM(a.sales_price + b.sales_price) AS together
FROM store_sales a JOIN store_sales b ON a.ticket = b.ticket AND a.item_id < b.item_id
JOIN items i ON i.item_id = a.item_id JOIN items j ON j.item_id = b.item_id
GROUP BY i.category, j.category
