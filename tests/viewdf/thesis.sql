-- 3.2.1 View1: a sliding window
CREATE VIEW View1 AS
  SELECT src, dest, sum(loss) as sum_loss
  FROM S [WINDOW 60 minutes]
  GROUP BY src, dest

-- 3.2.1 View2: a pattern
CREATE VIEW View2 AS
  SELECT timestamp, src, dest, count(*) as count, sum(loss) as sum_loss
  FROM S
PATTERN (a, b, c, d+)
WHERE a.loss > 10
AND b.loss > 10
AND c.loss > 10
AND d[1].loss > 10
AND d[i].loss > 10
GROUP BY src, dest

-- 3.2.2 View1: its ViewDF
CREATE VIEW View1 AS
INITIALIZE View1[k] AS
  SELECT src, dest, sum(loss) as sum_loss
  FROM S [k-60 .. k]
  GROUP BY src, dest;
UPDATE View1[i] AS
  SELECT * FROM
  (
    SELECT src,dest,sum(loss) as sum_loss FROM(
      SELECT src,dest,sum(loss) as loss FROM S[i] GROUP BY src,dest
      UNION ALL
      SELECT src,dest,sum(loss)*(-1) as loss FROM S[i-60]
      GROUP BY src,dest
      UNION ALL
        SELECT * from View1[i-1]) as X
    GROUP BY src,dest) as Y
    WHERE sum_loss>0;
PARTITION BY 1 minute

-- 3.2.2 View8: select; C(Y) is x > 1
CREATE VIEW View8 AS
INITIALIZE View8[k] AS
  SELECT *
  FROM R[k]
  WHERE x > 1
UPDATE View8[i] AS
  SELECT *
  FROM R[i]
  WHERE x > 1

-- 3.2.2 View9: project; X is Attr, x
CREATE VIEW View9 AS
INITIALIZE View9[k] AS
  SELECT Attr, x
  FROM R[k]
UPDATE View9[i] AS
  SELECT Attr, x
  FROM R[i]

-- 3.2.2 View10: join
CREATE VIEW View10 AS
INITIALIZE View10[k] AS
  SELECT *
  FROM R1[k] inner join R2[k] on R1[k].Attr = R2[k].Attr;
UPDATE View10[i] AS
  SELECT *
  FROM R1[i] inner join R2[i] on R1[i].Attr = R2[i].Attr;

-- 3.2.2 View11: select, project and join; X is x, y, and C(Y) is x > 1
CREATE VIEW View11 AS
INITIALIZE View11[k] AS
  SELECT x, y
  FROM R1[k] inner join R2[k] on R1[k].Attr = R2[k].Attr
  WHERE x > 1;
UPDATE View11[i] AS
  SELECT x, y
  FROM R1[i] inner join R2[i] on R1[i].Attr = R2[i].Attr
  WHERE x > 1;

-- 4.1.2 Helper: its first state
CREATE VIEW Helper AS
INITIALIZE Helper[k] AS
    SELECT timestamp,src,dest,1 AS currentState, 1 AS count, loss AS sum_loss
    FROM S[k]
    WHERE loss>10
UPDATE Helper[i] AS
    SELECT timestamp,src,dest,
case when prevState=0 and loss>10 then prevState+1
     when prevState=1 and loss>10 then prevState+1
     when prevState=2 and loss>10 then prevState+1
     when prevState=3 and loss>10 then prevState+1
     when prevState=4 and loss>10 then prevState end,
sum_loss+loss as sum_loss, 1+count as count
FROM
(
  SELECT
    New.timestamp, New.src as src, New.dest as dest,
    Prev.currentState as prevState, count, sum_loss
  FROM
    S[i] as New Natural
    Left Outer Join Helper[i-1] as Prev
  WHERE New.loss>10
)AS Temp
WHERE currentState!=0

-- 4.1.2 mv: the last state of Helper
CREATE VIEW mv AS
INITIALIZE mv[k] AS
  SELECT timestamp, src, dest, count, sum_loss
  FROM Helper[k]
  WHERE currentState=4
UPDATE mv[i] AS
  SELECT timestamp, src, dest, count, sum_loss
  FROM Helper[i]
  WHERE currentState=4

-- 4.1.2 BK: Helper with unions
CREATE VIEW Helper AS
INITIALIZE BK[k] AS
  SELECT timestamp,src,dest,1 AS prevState, 1 as count, loss as sum_loss
FROM S[k]
WHERE loss>10
UPDATE BK[i] AS
  SELECT New.timestamp, New.src as src, New.dest as dest,
         Prev.currentState as prevState, count, sum_loss
FROM S[i] as New Natural
  Left Outer Join Helper[i-1] as Prev
WHERE loss>10

-- 4.2 aux3: the sums of partitions
CREATE VIEW aux3 AS
INITIALIZE aux3[k] AS
    select src,dest,sum(loss) as loss from S[k-59] group by src,dest;
    ...
    select src,dest,sum(loss) as loss from S[k] group by src,dest;
UPDATE aux3[i] AS
    select src,dest,sum(loss) as loss from S[i] group by src,dest;

-- 4.2 View3: the sum of aux3
CREATE VIEW View3 AS
INITIALIZE View3[k] AS
select src,dest,sum(loss) as sum_loss from(
  select * from aux3[k-59]
  union all
  ...
  union all
  select * from aux3[k]) as X
group by src,dest;
UPDATE View3[i] AS
  select src,dest,sum(loss) as sum_loss from(
    select * from aux3[i-59]
    union all
    ...
    union all
    select * from aux3[i]) as X
group by src,dest;

-- 4.2 aux4: prefixes
CREATE VIEW aux4 AS
INITIALIZE aux4[k] AS
  select src,dest,sum(loss) as loss from S[k-59] group by src,dest;
...
select src,dest,sum(loss) as loss from(
  select * from aux4[k-1]
        union all
        select src,dest,sum(loss) as loss from S[k] group by src,dest) as X
group by src, dest;
UPDATE aux4[i] AS
select src,dest,sum(loss) as loss from(
select * from aux4[i-1]
union all
select src,dest,sum(loss) as loss from S[i] group by src,dest) as X
group by src, dest;

-- 4.2 View4: the difference of two prefixes
CREATE VIEW View4 AS
INITIALIZE View4[k] AS
select * from aux4[k];
UPDATE View4[i] AS
select * from
(
select src,dest,sum(loss) as sum_loss from(
select * from aux4[i]
union all
select src,dest,loss*(-1) as loss from aux4[i-60]) as X
group by src,dest
) as Y where sum_loss>0;

-- 4.2 View5: adding and subtracting
CREATE VIEW View5 AS
INITIALIZE View5[k] AS
  select src,dest,sum(loss) as sum_loss from(
    select * from aux5[k-59]
    union all
    ...
    union all
    select * from aux5[k]) as X
group by src,dest;
UPDATE View5[i] AS
select * from
(
  select src,dest,sum(loss) as sum_loss from(
    select src,dest,sum(loss) as loss from aux5[i] group by src,dest
    union all
    select src,dest,sum(loss)*(-1) as loss from aux5[i-60]
    group by src,dest
    union all
    select * from View5[i-1]) as X
  group by src,dest
) as Y where sum_loss>0;

-- 4.2 aux6: the greatest values of partitions
CREATE VIEW aux6 AS
INITIALIZE aux6[k] AS
    select src,dest,max(loss) as loss from S[k-59] group by src,dest;
    ...
    select src,dest,max(loss) as loss from S[k] group by src,dest;
UPDATE aux6[i] AS
    select src,dest,max(loss) as loss from S[i] group by src,dest;

-- 4.2 View6: the greatest of aux6
CREATE VIEW View6 AS
INITIALIZE View6[k] AS
    select src,dest,max(loss) as max_loss from(
        select * from aux6[k-59]
        union all
        ...
        union all
        select * from aux6[k]) as X
    group by src,dest
UPDATE View6[i] AS
    select src,dest,max(loss) as max_loss from(
        select * from aux6[i-59]
        union all
        ...
        union all
        select * from aux6[i]) as X
    group by src,dest

-- 4.3 Helper_S: on insert into R
CREATE VIEW Helper_S AS
INITIALIZE Helper_S[k] AS
    SELECT count(*) as count
    FROM R
UPDATE Helper_S[i] AS
    SELECT count + 1 as count
    FROM Helper_S[i-1]

-- 4.3 Helper_R: on insert into R
CREATE VIEW Helper_R AS
INITIALIZE Helper_R[k] AS
    SELECT count(*) as count
    FROM S
UPDATE Helper_R[i] AS
    SELECT count + 0 as count
    FROM Helper_R[i-1]

-- 4.3 View7: on insert into R
CREATE VIEW View7 AS
INITIALIZE View7[k] AS
    SELECT count(*) as count
    FROM R*S
UPDATE View7[i] AS
    SELECT Q.count + R.count as count
    FROM View7[i-1] as Q, Helper_R[i-1] as R

-- 4.3 Helper_R: on insert into S
CREATE VIEW Helper_R AS
INITIALIZE Helper_R[k] AS
    SELECT count(*) as count
    FROM S
UPDATE Helper_R[i] AS
    SELECT count + 1 as count
    FROM Helper_R[i-1]

-- 4.3 Helper_S: on insert into S
CREATE VIEW Helper_S AS
INITIALIZE Helper_S[k] AS
    SELECT count(*) as count
    FROM R
UPDATE Helper_S[i] AS
    SELECT count + 0 as count
    FROM Helper_S[i-1]

-- 4.3 View7: on insert into S
CREATE VIEW View7 AS
INITIALIZE View7[k] AS
    SELECT count(*) as count
    FROM R*S
UPDATE View7[i] AS
    SELECT Q.count + S.count as count
    FROM View7[i-1] as Q, Helper_S[i-1] as S
