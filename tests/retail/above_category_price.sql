-- States where at least two customers bought items that cost a fifth more than their category does on average.
SELECT c.state, COUNT(*) AS bought
FROM store_sales s JOIN customers c ON c.customer_id = s.customer_id JOIN items i ON i.item_id = s.item_id
WHERE i.price > (SELECT 1.2 * AVG(o.price) FROM items o WHERE o.category = i.category)
GROUP BY c.state
HAVING COUNT(*) >= 2
