-- Sales of each item by day with their running total, and where the running total of stores is ahead of the web's.
WITH store AS (
  SELECT item_id, day_id, SUM(SUM(sales_price)) OVER (
    PARTITION BY item_id ORDER BY day_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS total
  FROM store_sales GROUP BY item_id, day_id
),
web AS (
  SELECT item_id, day_id, SUM(SUM(sales_price)) OVER (
    PARTITION BY item_id ORDER BY day_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS total
  FROM web_sales GROUP BY item_id, day_id
)
SELECT COALESCE(s.item_id, w.item_id) AS item_id, COALESCE(s.day_id, w.day_id) AS day_id, s.total AS store, w.total AS web
FROM store s FULL JOIN web w ON s.item_id = w.item_id AND s.day_id = w.day_id
WHERE COALESCE(s.total, 0) > COALESCE(w.total, 0)
