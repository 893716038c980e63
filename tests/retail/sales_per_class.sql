-- The share of each item in the revenue of its class, and a median of prices, for the classes that sell.
SELECT i.class, i.name, SUM(w.sales_price * w.quantity) AS revenue,
  SUM(w.sales_price * w.quantity) * 100 / SUM(SUM(w.sales_price * w.quantity)) OVER (PARTITION BY i.class) AS share,
  MEDIAN(w.sales_price) AS median, MAX_BY(w.order_id, STRUCT(w.sales_price, w.order_id)) AS dearest_order
FROM web_sales w JOIN items i ON i.item_id = w.item_id
WHERE i.category IN ('Books', 'Music', 'Home') AND i.color NOT IN (SELECT color FROM items WHERE price > 95)
GROUP BY i.class, i.name
