-- Web orders by the days that they took to ship, as columns of each warehouse.
SELECT COALESCE(warehouse, 'unknown') AS warehouse,
  SUM(CASE WHEN DATEDIFF(shipped, day) <= 2 THEN 1 ELSE 0 END) AS within_two,
  SUM(CASE WHEN DATEDIFF(shipped, day) > 2 AND DATEDIFF(shipped, day) <= 5 THEN 1 ELSE 0 END) AS within_five,
  COUNT_IF(DATEDIFF(shipped, day) > 5) AS later, COUNT(*) FILTER (WHERE shipped IS NULL) AS waiting
FROM web_sales JOIN days USING (day_id)
GROUP BY warehouse
