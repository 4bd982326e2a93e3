SET 'sql-client.execution.result-mode' = 'tableau';
SET 'execution.runtime-mode' = 'batch';
CREATE TABLE numbers (n BIGINT, s STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '300000',
  'fields.n.kind' = 'random', 'fields.n.min' = '0', 'fields.n.max' = '999', 'fields.s.length' = '40');
SELECT COUNT(*) FROM (SELECT n, COUNT(DISTINCT s) FROM numbers GROUP BY n);
