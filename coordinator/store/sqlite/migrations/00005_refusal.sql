-- Commands that made the ledger panic: whoever leads next refuses them.

-- +goose Up

PRAGMA user_version = 5;

CREATE TABLE refusal (
  id      TEXT NOT NULL PRIMARY KEY, -- the beginning of the command's hash
  payload BLOB NOT NULL
);
