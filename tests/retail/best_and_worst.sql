-- The three best and the three worst items of each store by average profit, side by side.
WITH averages AS (
  SELECT store_id, item_id, AVG(profit) AS mean FROM store_sales GROUP BY store_id, item_id
),
ranked AS (
  SELECT store_id, item_id,
    ROW_NUMBER() OVER (PARTITION BY store_id ORDER BY mean DESC, item_id) AS best,
    ROW_NUMBER() OVER (PARTITION BY store_id ORDER BY mean, item_id) AS worst
  FROM averages
)
SELECT b.store_id, b.best AS place, i.name AS best_item, j.name AS worst_item
FROM ranked b JOIN ranked w ON w.store_id = b.store_id AND w.worst = b.best
JOIN items i ON i.item_id = b.item_id JOIN items j ON j.item_id = w.item_id
WHERE b.best <= 3
