-- The times in which no coordinator led: they end nothing, in whichever leadership a row is loaded.

-- +goose Up

ALTER TABLE meta ADD COLUMN outages TEXT NOT NULL DEFAULT ''; -- revision:from:to:length of each, in milliseconds
