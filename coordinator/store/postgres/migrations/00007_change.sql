-- Which rows the latest commits have changed, for coordinators that stand by: see store.ChangeTable.

-- +goose Up

CREATE TABLE change (
  sequence   BIGINT NOT NULL PRIMARY KEY, -- that the commit has left
  before     BIGINT NOT NULL,             -- that it has found; the same number: not known what it has changed
  leadership TEXT   NOT NULL,             -- as in meta, of who made it
  keys       BYTEA  NOT NULL              -- of the rows, as store.ChangedKeys reads them
);
