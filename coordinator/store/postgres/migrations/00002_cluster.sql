-- A store says whose it is, which leadership may write, and whether a copy into it was finished.

-- +goose Up

ALTER TABLE meta ADD COLUMN cluster TEXT NOT NULL DEFAULT ''; -- the cluster that it belongs to; empty: none yet
ALTER TABLE meta ADD COLUMN copying TEXT NOT NULL DEFAULT ''; -- where a copy into it comes from; empty: none is under way
-- What only the leadership of this epoch knows: where a database is put back, the same numbers are given out again.
ALTER TABLE meta ADD COLUMN leadership TEXT NOT NULL DEFAULT '';
