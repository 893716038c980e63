-- Sales that came back and were bought again on the web, by item, store and quarter, with how their quantities spread.
SELECT i.name, t.state, COUNT(s.quantity) AS sold, AVG(s.quantity) AS sold_mean, STDDEV_SAMP(s.quantity) AS sold_spread,
  COUNT(r.quantity) AS returned, AVG(r.quantity) AS returned_mean, COUNT(w.quantity) AS again,
  AVG(w.quantity) AS again_mean
FROM store_sales s
JOIN store_returns r ON r.ticket = s.ticket AND r.item_id = s.item_id AND r.customer_id = s.customer_id
JOIN web_sales w ON w.customer_id = r.customer_id AND w.item_id = r.item_id
JOIN items i ON i.item_id = s.item_id JOIN stores t ON t.store_id = s.store_id
GROUP BY i.name, t.state
