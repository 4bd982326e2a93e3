-- Ended allocations by host and by the well-known labels, see store.HistoryIndexTable. Filled behind commits.

-- +goose Up

-- Each day deletes a thirtieth of it: it is cleaned before a fifth of it is dead, which is what a server waits for by default.
CREATE TABLE history_index (
  term  BIGINT NOT NULL, -- the beginning of the SHA-256 of key and value
  ended BIGINT NOT NULL, -- as in allocation
  id    BIGINT NOT NULL,
  PRIMARY KEY (term, ended, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02);

-- All that ended up to this place in the history is in the index.
ALTER TABLE meta ADD COLUMN indexed_end BIGINT NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN indexed_id BIGINT NOT NULL DEFAULT 0;
-- The sequence of the last commit by a version that takes the place back for what ends before it. A version without the
-- index may lead after one that has it, while both run.
ALTER TABLE meta ADD COLUMN indexed_sequence BIGINT NOT NULL DEFAULT 0;
