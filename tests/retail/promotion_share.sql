-- The share of revenue under promotions by channel, in one row.
SELECT promoted.total AS promoted, everything.total AS total,
  CAST(promoted.total AS DECIMAL(15,4)) / CAST(everything.total AS DECIMAL(15,4)) * 100 AS share
FROM (
  SELECT SUM(sales_price) AS total FROM store_sales s JOIN promotions p ON p.promo_id = s.promo_id
  WHERE p.channel = 'mail' OR p.channel = 'tv'
) promoted
CROSS JOIN (SELECT SUM(sales_price) AS total FROM store_sales) everything
