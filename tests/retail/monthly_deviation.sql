-- Months in which a brand sold a tenth more or less than in its average month of the year, with the months around.
WITH monthly AS (
  SELECT brand, store_id, year, month, SUM(sales_price) AS sales,
    AVG(SUM(sales_price)) OVER (PARTITION BY brand, store_id, year) AS mean
  FROM store_sales JOIN items USING (item_id) JOIN days USING (day_id)
  GROUP BY brand, store_id, year, month
)
SELECT brand, store_id, year, month, sales, mean,
  LAG(sales) OVER (PARTITION BY brand, store_id ORDER BY year, month) AS before,
  LEAD(sales) OVER (PARTITION BY brand, store_id ORDER BY year, month) AS after
FROM monthly
WHERE mean > 0 AND ABS(sales - mean) / mean > 0.1
