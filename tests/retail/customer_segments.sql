-- Preferred customers by decade of birth, how much they buy and in which months, with a flag where one is missing.
SELECT FLOOR(c.birth_year / 10) * 10 AS decade, COUNT(DISTINCT c.customer_id) AS customers,
  SUM(s.sales_price) AS spent, MAX(s.sales_price) AS dearest, MIN(d.day) AS first_day,
  SORT_ARRAY(COLLECT_SET(d.month)) AS months, MAX(c.state IS NULL) AS stateless
FROM customers c LEFT JOIN store_sales s ON s.customer_id = c.customer_id LEFT JOIN days d ON d.day_id = s.day_id
WHERE c.preferred OR c.preferred IS NULL
GROUP BY FLOOR(c.birth_year / 10) * 10
