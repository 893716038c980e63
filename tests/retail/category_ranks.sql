-- Sales by category and class with subtotals, ranked among their parents.
SELECT category, class, GROUPING(category) + GROUPING(class) AS level, SUM(profit) AS profit, SUM(sales_price) AS revenue,
  RANK() OVER (
    PARTITION BY GROUPING(category) + GROUPING(class), CASE WHEN GROUPING(class) = 0 THEN category END
    ORDER BY SUM(profit) DESC
  ) AS place
FROM store_sales JOIN days USING (day_id) JOIN items USING (item_id)
WHERE year = 2001
GROUP BY ROLLUP (category, class)
