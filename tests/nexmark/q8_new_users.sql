SELECT p.id, p.name, p.since
FROM (SELECT id, name, window.start AS since FROM person GROUP BY id, name, window(at, '1 hour')) p
JOIN (SELECT seller, window.start AS since FROM auction GROUP BY seller, window(at, '1 hour')) a
  ON p.id = a.seller AND p.since = a.since
