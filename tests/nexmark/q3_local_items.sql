SELECT p.name, p.city, p.state, a.id
FROM auction a JOIN person p ON a.seller = p.id
WHERE a.category = 1 AND p.state IN ('OR', 'ID', 'CA')
