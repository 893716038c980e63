-- Sales of each store by quarter, as columns, and each quarter beside the one of the year before.
WITH quarterly AS (
  SELECT store_id, year,
    SUM(CASE WHEN quarter = 1 THEN sales_price END) AS q1, SUM(CASE WHEN quarter = 2 THEN sales_price END) AS q2,
    SUM(CASE WHEN quarter = 3 THEN sales_price END) AS q3, SUM(CASE WHEN quarter = 4 THEN sales_price END) AS q4
  FROM store_sales JOIN days USING (day_id)
  GROUP BY store_id, year
)
SELECT t.name, y.year, ROUND(y.q1 / NULLIF(x.q1, 0), 2) AS r1, ROUND(y.q2 / NULLIF(x.q2, 0), 2) AS r2,
  ROUND(y.q3 / NULLIF(x.q3, 0), 2) AS r3, ROUND(y.q4 / NULLIF(x.q4, 0), 2) AS r4
FROM quarterly y JOIN quarterly x ON x.store_id = y.store_id AND x.year = y.year - 1
JOIN stores t ON t.store_id = y.store_id
