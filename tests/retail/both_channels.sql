-- How many customers bought in both channels in a year, how many in stores alone, and how many on the web alone.
SELECT 'both' AS kind, COUNT(*) AS customers FROM (
  SELECT customer_id, year FROM store_sales JOIN days USING (day_id)
  INTERSECT
  SELECT customer_id, year FROM web_sales JOIN days USING (day_id)
) b
UNION ALL
SELECT 'store', COUNT(*) FROM (
  SELECT customer_id, year FROM store_sales JOIN days USING (day_id)
  EXCEPT
  SELECT customer_id, year FROM web_sales JOIN days USING (day_id)
) s
UNION ALL
SELECT 'web', COUNT(*) FROM (
  SELECT customer_id, year FROM web_sales JOIN days USING (day_id)
  EXCEPT
  SELECT customer_id, year FROM store_sales JOIN days USING (day_id)
) w
