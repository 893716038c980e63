SELECT q.category, SUM(q.final) AS total, COUNT(*) AS sold
FROM (
  SELECT a.id, a.category, MAX(b.price) AS final
  FROM auction a JOIN bid b ON a.id = b.auction
  WHERE b.at BETWEEN a.at AND a.expires
  GROUP BY a.id, a.category
) q
GROUP BY q.category
