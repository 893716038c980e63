-- Revenue and net revenue of each item over all channels, returns taken away, with a total.
SELECT channel, item_id, SUM(revenue) AS revenue, SUM(returned) AS returned, SUM(revenue) - SUM(returned) AS net
FROM (
  SELECT 'store' AS channel, item_id, sales_price * quantity AS revenue, CAST(0 AS DECIMAL(7,2)) AS returned FROM store_sales
  UNION ALL
  SELECT 'store', item_id, 0, amount FROM store_returns
  UNION ALL
  SELECT 'web', item_id, sales_price * quantity, 0 FROM web_sales
) moved
GROUP BY GROUPING SETS ((channel, item_id), (channel), ())
