-- Items whose stock varies much in a month, and that sold in it.
SELECT v.item_id, v.month, v.mean, v.deviation
FROM (
  SELECT item_id, year, month, AVG(on_hand) AS mean, STDDEV_SAMP(on_hand) AS deviation
  FROM inventory JOIN days USING (day_id)
  GROUP BY item_id, year, month
) v
WHERE v.mean > 0 AND v.deviation / v.mean > 0.3
  AND (v.item_id, v.month) IN (SELECT item_id, month FROM web_sales JOIN days USING (day_id))
