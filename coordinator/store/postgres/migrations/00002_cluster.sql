-- A store says whose it is, and whether a copy into it was finished.

-- +goose Up

ALTER TABLE meta ADD COLUMN cluster TEXT NOT NULL DEFAULT ''; -- the cluster that it belongs to; empty: none yet
ALTER TABLE meta ADD COLUMN copying TEXT NOT NULL DEFAULT ''; -- where a copy into it comes from; empty: none is under way
