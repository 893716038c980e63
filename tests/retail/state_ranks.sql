-- The states whose stores have most profit, with subtotals by market, and only the first three of each level.
SELECT * FROM (
  SELECT state, market, SUM(profit) AS profit, GROUPING_ID(state, market) AS level,
    DENSE_RANK() OVER (PARTITION BY GROUPING_ID(state, market) ORDER BY SUM(profit) DESC) AS place
  FROM store_sales s JOIN stores t ON s.store_id = t.store_id
  GROUP BY CUBE (state, market)
) ranked
WHERE place <= 3
